import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { dashboardMetrics } from '../../src/index.ts'
import { letterOf, refused, useBrowser } from './browser-world.ts'

const { open } = useBrowser()

/** Of axe. */
interface Finding {
  readonly id: string
  readonly nodes: readonly { readonly html: string }[]
}

describe('accessibility', () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  const hashes = [
    '#/',
    '#/stores/orders/records?state=parked&destination=billing',
    '#/stores/orders/records/1',
    '#/inbox?id=m',
    '#/dead-letters',
    '#/dead-letters/dlq/a',
    '#/audit',
    '#/doctor',
  ]

  const both = [
    { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 360, height: 740 } },
  ] as const
  // `make proof` runs the other two combinations as well.
  const others = [
    { colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'light', viewport: { width: 360, height: 740 } },
  ] as const

  it.each(isProof ? [...both, ...others] : both)(
    'has no findings of axe on any page, nor a page that scrolls sideways: $colorScheme, $viewport.width px',
    async (context) => {
      const metrics = dashboardMetrics()
      metrics.count('ackord.inbox.handled', 1, { consumer: 'c'.repeat(100) })
      const world = await open({
        context,
        inboxes: {
          main: {
            find: async (id) => [{ consumer: 'c', source: '', id, state: 'partial', handledAt: 1, expiresAt: undefined }],
            forget: async () => 0,
          },
        },
        deadLetters: {
          dlq: {
            list: async () => ({
              letters: [{ ...letterOf('a'), reason: 'r'.repeat(200), problem: 'p' }],
              count: 9,
            }),
            find: async () => [{ ...letterOf('a'), reason: 'r'.repeat(200), problem: 'p' }],
            preview: async () => ({ count: 0, skipped: 0, destinations: [], capped: false }),
            replay: async () => 0,
          },
        },
        metrics,
        doctor: async () => [{ store: 'orders', title: 'Title', result: 'failed', text: 'x'.repeat(300) }],
      })
      await world.addParked([
        { ...refused, error: 'e'.repeat(300), attributes: { partitionkey: 'k'.repeat(300), type: 'order.placed'.repeat(9) } },
      ])
      await world.add('shipping-with-a-long-name-'.repeat(5), {})
      await world.store.pause('billing', { by: 'ada', reason: 'maintenance' })

      async function check(where: string) {
        const { violations, passes } = (await world.page.evaluate(`${axe}; axe.run()`)) as Record<
          'violations' | 'passes',
          readonly Finding[]
        >
        expect(violations.map(({ id, nodes }) => [where, id, nodes.map(({ html }) => html)])).toEqual([])
        expect(passes.map(({ id }) => id)).toContain('color-contrast')
        expect([where, await world.page.evaluate('document.documentElement.scrollWidth <= innerWidth')]).toEqual([where, true])
      }

      for (const hash of hashes) {
        await world.goTo(hash)
        if (hash === '#/') await world.page.getByText('by ada').waitFor()
        if (hash === '#/doctor') await world.page.getByRole('button', { name: 'Run the checks' }).click()
        await world.page.locator('table, .history, [role=table], .facts').first().waitFor()
        await check(hash)
      }
      await world.goTo('#/stores/orders/records/1')
      await world.page.getByRole('button', { name: 'Edit and re-arm' }).click()
      await world.page.getByText('This changes and re-arms 1 record.').waitFor()
      await world.page.getByRole('dialog').getByText('Attributes').click()
      await check('dialog')
      await world.page.keyboard.press('Escape')
      await world.goTo('#/stores/orders/records?state=parked')
      await world.page.getByRole('button', { name: 'Edit and re-arm all that match' }).click()
      await world.page.getByText('This changes and re-arms 1 record.').waitFor()
      await check('dialog for several records')
    },
  )

  it('works with the keyboard alone', async () => {
    const world = await open()
    await world.addParked([refused])
    await world.goTo('#/stores/orders/records/1')
    const button = world.page.getByRole('button', { name: 'Re-arm', exact: true })
    await button.focus()
    await world.page.keyboard.press('Enter')
    await world.page.getByText('This re-arms 1 record.').waitFor()
    expect(await world.page.evaluate('document.activeElement.id')).toBe('reason')
    await world.page.keyboard.press('Escape')
    await world.page.getByRole('dialog').waitFor({ state: 'detached' })
    await world.page.keyboard.press('Enter')
    await world.page.getByText('This re-arms 1 record.').waitFor()
    await world.page.keyboard.type('by keyboard')
    await world.page.keyboard.press('Enter')
    await world.page.getByText('Re-armed 1 record.').waitFor()
    expect((await world.store.audit({ limit: 1 }))[0]).toMatchObject({ action: 'rearm', reason: 'by keyboard', count: 1 })
  })
})
