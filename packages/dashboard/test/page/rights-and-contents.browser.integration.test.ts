import { describe, expect, it } from 'vitest'
import { refused, useBrowser } from './browser-world.ts'

const { open } = useBrowser()

describe('rights', () => {
  const actions = /re-arm|discard|park|pause|edit|replay/i

  it('are none but looking if the dashboard is read-only', async () => {
    const world = await open({ readOnly: true })
    await world.addParked([refused])
    for (const hash of ['#/', '#/stores/orders/records?state=parked', '#/stores/orders/records/1']) {
      await world.goTo(hash)
      await world.page.getByText('Read-only').waitFor()
      await world.page
        .getByText(/billing/)
        .first()
        .waitFor()
      expect(await world.page.getByRole('button', { name: actions }).count()).toBe(0)
      expect(await world.page.getByRole('checkbox').count()).toBe(0)
    }
    expect(await world.page.locator('.payload').textContent()).toContain('m-1')
  })

  it('decide which actions are offered, and whether payloads are shown', async () => {
    const world = await open({ authorize: () => ({ name: 'grace', rights: ['view', 'rearm'] }) })
    await world.addParked([refused])
    await world.goTo('#/stores/orders/records/1')
    await world.page.getByRole('button', { name: 'Re-arm', exact: true }).waitFor()
    expect(await world.page.getByRole('button', { name: actions }).allTextContents()).toEqual(['Re-arm'])
    await world.page.getByText('You do not have the right to see payloads.').waitFor()
    await world.page.getByText('grace').waitFor()
  })

  it('are missing for a user who is not signed in', async () => {
    const world = await open({ authorize: () => undefined })
    await world.goTo('#/')
    await world.page.getByText('You are not signed in, or may not use this dashboard.').first().waitFor()
  })
})

describe('contents of records', () => {
  it('are shown as text wherever they appear', async () => {
    const evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    const world = await open({ traceUrl: 'https://traces.example/{traceId}' })
    world.page.on('dialog', (dialog) => world.problems.push(`A script has opened a dialog: ${dialog.message()}`))
    await world.addParked([
      {
        id: `javascript:alert(3)//${evil}`,
        error: `${evil} \u202egnirts\u2066 [link](javascript:alert(4))`,
        destination: `javascript:alert(5)${evil}`,
        data: { evil, mark: '\u202e' },
        attributes: { type: evil, partitionkey: `${'k'.repeat(2000)}\u200f${evil}`, comment: evil, traceparent: `00-${evil}-01` },
      },
    ])
    await world.store.pause(`javascript:alert(5)${evil}`, { by: evil, reason: `${evil}\u202e` })
    for (const hash of ['#/', '#/stores/orders/records', '#/stores/orders/records?state=parked', '#/stores/orders/records/1', '#/audit']) {
      await world.goTo(hash)
      await world.page.getByText(evil).first().waitFor()
      expect(await world.page.locator('main img, main script, main a[href^="javascript"]').count()).toBe(0)
      expect(await world.page.locator('body').textContent()).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/)
    }
    await world.goTo('#/stores/orders/records/1')
    await world.page.getByText('\\u202egnirts\\u2066').first().waitFor()
    await world.page.getByText('"\\u202e"').waitFor()
  })

  it('that are redacted can be chosen as a filter nevertheless', async () => {
    const world = await open({
      redact: (record) => ({ ...record, lastError: record.lastError?.replace(/card \w+/, 'card ***') }),
    })
    await world.addParked([
      { id: 'm-1', error: 'declined: card hunter' },
      { id: 'm-2', error: 'declined: card fisher' },
      { id: 'm-3', error: 'refused' },
    ])
    await world.goTo('#/stores/orders/records?state=parked')
    await world.page.getByRole('link', { name: 'declined: card ***' }).first().click()
    await world.page.getByText('failure redacted').waitFor()
    await expect.poll(() => world.page.getByRole('table', { name: 'Records' }).getByRole('row').count()).toBe(2)
    expect(await world.page.locator('body').textContent()).not.toMatch(/hunter|fisher/)
  })
})
