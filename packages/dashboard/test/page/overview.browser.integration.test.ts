import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { dashboardMetrics } from '../../src/index.ts'
import { type BrowserWorldOptions, confirm, letterOf, useBrowser } from './browser-world.ts'

const { open } = useBrowser()

/** The value of a fact on the overview. */
function figure(page: Page, name: string) {
  return page.locator('.figure', { hasText: new RegExp(`^${name}`, 'i') }).locator('dd')
}

describe('the overview', () => {
  it('changes while records are published', async () => {
    const world = await open({ store: { retain: true } })
    for (let number = 0; number < 5; number += 1) await world.add('billing', { number })
    await world.goTo('#/')
    await world.page.getByText('Live').waitFor()
    await expect.poll(() => figure(world.page, 'ready').textContent()).toBe('5')
    expect(await figure(world.page, 'published$|^published\\d').textContent()).toBe('0')
    world.startRelay()
    await expect.poll(() => figure(world.page, 'ready').textContent(), { timeout: 10_000 }).toBe('0')
    await world.page.getByRole('row', { name: 'billing' }).getByRole('link', { name: '5', exact: true }).waitFor()
  })

  it('has what consumers have handled, says that no relay runs, and does not guess what was stored', async () => {
    const metrics = dashboardMetrics()
    metrics.count('ackord.inbox.handled', 5, { consumer: 'billing' })
    metrics.count('ackord.inbox.duplicates', 2, { consumer: 'billing' })
    metrics.count('ackord.settled', 3, { verdict: 'nacked' })
    const world = await open({ metrics })
    await world.goTo('#/')
    await expect.poll(() => world.page.getByRole('row', { name: 'billing' }).textContent()).toBe('billing520')
    await world.page.getByText('3 failed, 0 rejected').waitFor()
    expect(await figure(world.page, 'stored').textContent()).toBe('–')
    await world.page.getByText('No relay has reported in the last half minute.').waitFor()
  })

  it('says which partitions each relay owns, as does the page of a record', async () => {
    const world = await open({ store: { order: 'perKey' } })
    await world.add('billing', {}, { partitionkey: 'k' })
    const { partition = -1 } = (await world.store.get('1')) ?? {}
    const others = Array.from({ length: 256 }, (_, number) => number).filter((number) => number !== partition && number % 2 === 0)
    const report = { uptime: 1, inFlight: 0, down: [], published: 0, failed: 0, parked: 0 }
    const relays = [
      { ...report, host: 'one', pid: 7, partitions: 1, ownedPartitions: String(partition) },
      { ...report, host: 'two', pid: 8, partitions: others.length, ownedPartitions: others.join(', ') },
    ]
    await world.store.notes.put(
      'relay',
      relays.map((relay) => ({ name: relay.host, value: JSON.stringify(relay) })),
      30_000,
    )
    await world.goTo('#/')
    const rowOf = (name: string) => world.page.getByRole('row', { name })
    await rowOf('one pid 7').getByText(String(partition), { exact: true }).waitFor()
    await rowOf('two pid 8').getByText(others.join(', ')).waitFor()

    await world.goTo('#/stores/orders/records/1')
    await world.page.getByText(`${partition}, owned by one pid 7`).waitFor()
  })

  it('shows what was published and what has failed per minute, by destination', async () => {
    const world = await open()
    await world.add('billing', {})
    const rate = { destination: 'billing', duration: 300_000, published: 500, failed: 25, parked: 0 }
    await world.store.notes.put('rate', [{ name: 'r', value: JSON.stringify(rate) }], 300_000)
    await world.goTo('#/')
    const row = world.page.getByRole('row', { name: 'billing' })
    await expect.poll(() => row.locator('[data-label="Failed/min"]').textContent()).toBe('5')
    expect(await row.locator('[data-label="Published/min"]').textContent()).toBe('100')
  })

  it('polls if events do not arrive', async () => {
    const world = await open()
    await world.page.route('**/api/events', (route) => route.abort())
    await world.add('billing', {})
    await world.goTo('#/')
    await world.page.getByText('Polling').waitFor()
    await world.add('billing', {})
    await expect.poll(() => figure(world.page, 'ready').textContent(), { timeout: 10_000 }).toBe('2')
  })

  it('says so if the server is lost, and keeps the last figures', async () => {
    const world = await open()
    await world.add('billing', {})
    await world.goTo('#/')
    await expect.poll(() => figure(world.page, 'ready').textContent()).toBe('1')
    await world.stopServer()
    await world.page.getByText('The figures are not up to date. The server cannot be reached.').waitFor()
    expect(await world.page.getByText('Disconnected').isVisible()).toBe(true)
    expect(await figure(world.page, 'ready').textContent()).toBe('1')
  })

  it('pauses and resumes a destination', async () => {
    const world = await open()
    await world.add('billing', {})
    await world.goTo('#/')
    await world.page.getByRole('button', { name: 'Pause billing' }).click()
    await world.page.getByText('This holds back 1 record').waitFor()
    await world.page.getByLabel('For').selectOption('1 h')
    await confirm(world.page, 'Pause', 'Paused.')
    const [pause] = await world.store.pauses()
    expect(pause).toMatchObject({ destination: 'billing', by: 'everybody', reason: 'broker is back' })
    expect(pause?.until).toBeGreaterThan(Date.now())
    await world.page.getByText('by everybody, ends in 1 h: broker is back').waitFor()
    await world.page.getByRole('button', { name: 'Resume billing' }).click()
    await confirm(world.page, 'Resume', 'Resumed.')
    expect(await world.store.pauses()).toEqual([])
  })
})

describe('other pages', () => {
  const options: BrowserWorldOptions = {
    inboxes: {
      main: {
        find: async (id) =>
          id === 'm-1'
            ? [
                {
                  consumer: 'billing',
                  source: '/shop',
                  id,
                  state: 'handled',
                  handledAt: Date.now() - 300_000,
                  expiresAt: Date.now() + 3_600_000,
                },
              ]
            : [],
        forget: async () => 0,
      },
    },
    doctor: async () => [{ store: 'orders', title: 'The schema is current', result: 'warning', text: 'An index is missing.' }],
  }

  it('look up a message in the inbox', async () => {
    const world = await open(options)
    await world.goTo('#/inbox')
    await world.page.getByLabel('Message id').fill('m-1')
    await world.page.getByRole('button', { name: 'Look up' }).click()
    await expect.poll(() => world.page.getByRole('row').nth(1).textContent()).toMatch(/^billinghandled\/shop5 min agoin 1 h$/)
    await world.page.getByLabel('Message id').fill('m-2')
    await world.page.keyboard.press('Enter')
    await world.page.getByText('No consumer has handled this message').waitFor()
  })

  it('run the checks of the doctor', async () => {
    const world = await open(options)
    await world.goTo('#/doctor')
    await world.page.getByRole('button', { name: 'Run the checks' }).click()
    await world.page.getByRole('row', { name: 'The schema is current' }).getByText('An index is missing.').waitFor()
  })

  it('replay the selected dead letters', async () => {
    const replayed: (readonly string[] | undefined)[] = []
    const letters = ['a', 'b'].map((id) => letterOf(id))
    const world = await open({
      deadLetters: {
        dlq: {
          list: async () => ({ letters, count: 2 }),
          find: async (id) => letters.filter(({ message }) => message.id === id),
          preview: async (ids) => ({ count: ids?.length ?? 2, skipped: 1, destinations: ['orders', 'mail'], capped: false }),
          async replay(ids) {
            replayed.push(ids)
            return ids?.length ?? 2
          },
        },
      },
    })
    await world.goTo('#/dead-letters')
    await world.page.getByLabel('Select message b').check()
    await world.page.getByRole('button', { name: 'Replay 1' }).click()
    await world.page.getByText('This sends 1 dead letter back to orders, mail. 1 dead letter cannot be replayed and stays.').waitFor()
    await confirm(world.page, 'Replay', 'Replayed 1 dead letter.')
    await world.page.getByRole('button', { name: 'Replay all' }).click()
    await confirm(world.page, 'Replay', 'Replayed 2 dead letters.')
    expect(replayed).toEqual([['b'], undefined])
  })

  it('say that an address is unknown', async () => {
    const world = await open()
    await world.goTo('#/nothing')
    await world.page.getByText('This page does not exist').waitFor()
    await world.goTo('#/stores/unknown/records')
    await world.page.getByText('There is no store "unknown".').first().waitFor()
  })
})
