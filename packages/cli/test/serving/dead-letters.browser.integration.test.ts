import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildPage, openBrowser } from '../../../dashboard/test/page/browser-world.ts'
import { type Ackord, ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openLetters, readMessages } from '../support/letters.ts'
import { natsUrl, openTestStore, rabbitmqUrl } from '../support/services.ts'

type Browser = Awaited<ReturnType<typeof openBrowser>>

let browser: Browser | undefined

beforeAll(async () => {
  // The bundle contains the page.
  buildPage()
  await bundleMain()
  browser = await openBrowser()
}, 120_000)

afterAll(async () => {
  await browser?.close()
})

/** Opens the page at the address that the command prints. */
async function openPage(command: Ackord) {
  await command.said('Ctrl-C ends it.')
  const [withToken = ''] = /http:\/\/[\d.:]+\/\?token=\S+/.exec(command.stdout) ?? []
  const page = await (browser as Browser).newPage()
  await page.goto(withToken)
  await page.locator('h1').waitFor()
  return page
}

it('dead letters of RabbitMQ are listed, looked at, and replayed with a reason', async () => {
  await using store = await openTestStore()
  await using letters = await openLetters(rabbitmqUrl)
  await letters.reject(['m-1', 'm-2'], { attributes: { subject: '<b>card</b>' } })
  await letters.reject(['m-3'], { origin: undefined })
  const queue = letters.dead.topic
  const command = start(['dashboard', ...store.args, '--port', '0', '--broker', rabbitmqUrl, '--dead-letters', queue])
  const page = await openPage(command)
  await page.getByRole('link', { name: 'Dead letters' }).click()
  await page.getByText('3 dead letters').waitFor()
  expect(await page.getByRole('row', { name: 'm-1' }).textContent()).toContain('no customer for m-1')

  await page.getByRole('link', { name: 'm-2' }).click()
  await page.getByRole('heading', { name: 'Dead letter' }).waitFor()
  await page.getByText('no customer for m-2').waitFor()
  await expect.poll(() => page.locator('.payload').textContent()).toContain('"m-2"')
  expect(await page.locator('.attributes').textContent()).toContain('<b>card</b>')
  // Looking has removed none of them.
  expect((await letters.list()).map(({ id }) => id)).toEqual(['m-1', 'm-2', 'm-3'])

  await page.getByRole('button', { name: 'Replay' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(`This sends 1 dead letter back to ${letters.origin.topic}.`).waitFor()
  await dialog.getByLabel('Reason').fill('the customer exists now')
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await dialog.getByText('Replayed 1 dead letter.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.getByText('There is no such dead letter.').waitFor()

  await page.getByRole('link', { name: 'Dead letters' }).click()
  await page.getByRole('button', { name: 'Replay all' }).click()
  await dialog.getByText('1 dead letter cannot be replayed and stays.').waitFor()
  await dialog.getByLabel('Reason').fill('all of them')
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await dialog.getByText('Replayed 1 dead letter.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  expect((await readMessages(letters.origin, 2)).map(({ id }) => id)).toEqual(['m-2', 'm-1'])
  expect((await letters.list()).map(({ id }) => id)).toEqual(['m-3'])

  await page.getByRole('link', { name: 'Audit' }).click()
  const entry = page.getByRole('row', { name: 'the customer exists now' })
  await entry.waitFor()
  expect(await entry.textContent()).toContain(`dead letters of ${queue}: m-2`)
  command.child.kill('SIGINT')
  const { code, stderr } = await command.ended
  expect([code, stderr]).toEqual([0, expect.stringContaining('An action of an operator was done.')])
})

it('several destinations of several brokers are shown by their names', async () => {
  await using store = await openTestStore()
  await using rabbit = await openLetters(rabbitmqUrl)
  await using nats = await openLetters(natsUrl)
  await nats.reject(['n-1'])
  const brokers = ['--broker', `rabbit=${rabbitmqUrl}`, '--broker', natsUrl]
  const destinations = ['--dead-letters', `rabbit=${rabbit.dead.topic}`, '--dead-letters', `nats=${nats.dead.topic}`]
  const command = start(['dashboard', ...store.args, '--port', '0', ...brokers, ...destinations])
  const page = await openPage(command)
  await page.getByRole('link', { name: 'Dead letters' }).click()
  await page.getByText('No dead letters').waitFor()
  await page.getByLabel('Queue').selectOption(`nats/${nats.dead.topic}`)
  await page.getByRole('link', { name: 'n-1' }).waitFor()
  command.child.kill('SIGINT')
  expect((await command.ended).code).toBe(0)
})

it('a destination that does not exist, or belongs to no broker, is reported at the start', async () => {
  await using store = await openTestStore()
  const run = (...args: readonly string[]) => ackord(['dashboard', ...store.args, '--port', '0', ...args])
  const missing = await run('--broker', rabbitmqUrl, '--dead-letters', 'no-such-queue')
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("There is no queue 'no-such-queue'")])
  const without = await run('--dead-letters', 'orders.dead')
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--broker is missing: it has the dead letters.')])
  const ambiguous = await run('--broker', rabbitmqUrl, '--broker', natsUrl, '--dead-letters', 'orders.dead')
  expect([ambiguous.code, ambiguous.stderr]).toEqual([2, expect.stringContaining("does not say which broker has 'orders.dead'")])
})
