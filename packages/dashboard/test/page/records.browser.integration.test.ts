import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { shortPages } from '../support/short-pages.ts'
import { confirm, refused, useBrowser } from './browser-world.ts'

const { open } = useBrowser()

describe('a search', () => {
  it('shows what it has found, waits after two seconds, and goes on', async () => {
    const world = await open()
    for (let index = 0; index < 40; index += 1) await world.add('orders', {}, index % 13 === 12 ? { type: 'rare' } : {})
    let pages = 0
    // The clock of the page has passed two seconds after three pages, or before if the machine is busy.
    await world.page.clock.install()
    Object.assign(world.store, {
      list: shortPages(world.store, 8, async () => {
        pages += 1
        await world.page.clock.runFor(800)
      }),
    })
    await world.goTo('#/stores/orders/records?type=rare')
    const searchOn = world.page.getByRole('button', { name: 'Search on' })
    await searchOn.waitFor()
    const ids = () => world.page.getByRole('table', { name: 'Records' }).getByRole('rowheader').allTextContents()
    expect(pages).toBeLessThanOrEqual(3)
    expect(await ids()).toEqual(['13', '26', '39'].filter((id) => Number(id) <= 8 * pages))
    await world.page.getByText('There are more records to search. Searched: those stored until').waitFor()
    expect(await world.page.getByRole('button', { name: 'Next' }).count()).toBe(0)
    await expect
      .poll(async () => {
        if (await searchOn.isVisible()) await searchOn.click()
        return await ids()
      })
      .toEqual(['13', '26', '39'])
    await searchOn.waitFor({ state: 'detached' })
  })
})

describe('a record', () => {
  it('is looked at, edited, re-armed and published', async () => {
    const world = await open({ store: { retain: true } })
    await world.addParked([{ ...refused, data: { order: 7, big: 1 }, attributes: { partitionkey: 'k', priority: 3 } }])
    await world.goTo('#/stores/orders/records?state=parked')
    await world.page.getByRole('link', { name: '1', exact: true }).click()
    await world.page.getByRole('heading', { name: 'Record 1' }).waitFor()
    expect(await world.page.locator('.history').textContent()).toContain(refused.error)
    expect(await world.page.locator('.payload').textContent()).toBe('{\n  "order": 7,\n  "big": 1\n}')

    await world.page.getByRole('button', { name: 'Edit and re-arm' }).click()
    const dialog = world.page.getByRole('dialog')
    await dialog.getByText('This changes and re-arms 1 record.').waitFor()
    await dialog.getByLabel('Destination').fill('archive')
    await dialog.getByLabel('Reason').fill('wrong order')
    await dialog.getByLabel('Payload (JSON)').fill('{"order": ')
    await dialog.getByText('The payload is not valid JSON').waitFor()
    expect(await dialog.getByRole('button', { name: 'Save and re-arm' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Payload (JSON)').fill('{\n "order": 8 }')
    await dialog.getByText('Attributes').click()
    await dialog.getByLabel('priority').fill('9')
    await confirm(world.page, 'Save and re-arm', 'Re-armed 1 record.')

    world.startRelay()
    await expect.poll(() => world.published).toEqual(['m-1'])
    const [record] = await world.store.find({ messageId: 'm-1' })
    expect(record).toMatchObject({ destination: 'archive', message: { attributes: { priority: 9 } } })
    expect(new TextDecoder().decode(record?.message.data)).toBe('{"order":8}')
    await world.page.getByRole('button', { name: 'Refresh' }).click()
    await world.page
      .getByText('Published now')
      .or(world.page.getByText(/Published \d+ s ago/))
      .waitFor()
  })

  it('shows what is ahead of it and behind it in its key, and re-arms the key', async () => {
    const world = await open({ store: { order: 'perKey' } })
    await world.addParked(['a', 'b', 'c'].map((id) => ({ id, error: 'refused', attributes: { partitionkey: 'customer-1' } })))
    await world.goTo('#/stores/orders/records/2')
    const key = world.page.getByRole('region', { name: 'Key customer-1' })
    await expect.poll(() => key.getByRole('listitem').allTextContents()).toHaveLength(2)
    expect((await key.getByRole('link').allTextContents()).slice(0, 2)).toEqual(['1', '3'])
    await world.page.getByRole('button', { name: 'Re-arm the key' }).click()
    await world.page.getByText('This re-arms 3 records.').waitFor()
    await confirm(world.page, 'Re-arm', 'Re-armed 3 records.')
    world.startRelay()
    await expect.poll(() => world.published).toEqual(['a', 'b', 'c'])
  })

  it('that is ready can be parked, and discarded after that', async () => {
    const world = await open()
    await world.add('billing', {})
    await world.goTo('#/stores/orders/records/1')
    await world.page.getByRole('button', { name: 'Park', exact: true }).click()
    await confirm(world.page, 'Park', 'Parked 1 record.')
    await world.page.getByRole('button', { name: 'Discard' }).click()
    await world.page.getByText('This deletes 1 record permanently.').waitFor()
    await confirm(world.page, 'Discard', 'Discarded 1 record.')
    await world.page.getByText('There is no such record.').waitFor()
    await world.goTo('#/audit')
    await expect.poll(() => world.page.getByRole('row').allTextContents()).toHaveLength(3)
    expect(await world.page.getByRole('row').nth(1).textContent()).toMatch(/everybody.*discard.*1.*broker is back/)
  })

  it('that backs off can be cancelled before it is due', async () => {
    const world = await open()
    await world.add('billing', {})
    const claims = await world.store.claim({ limit: 1, lease: 1000 })
    await world.store.settle(claims.map(({ id, token }) => ({ id, token, result: 'failed', error: 'busy', retryAfter: 3_600_000 })))
    await world.goTo('#/stores/orders/records?state=waiting')
    await world.page.getByRole('button', { name: 'Cancel all that match' }).waitFor()
    await world.goTo('#/stores/orders/records/1')
    await world.page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await world.page.getByText('This deletes 1 record that would be published later.').waitFor()
    await confirm(world.page, 'Delete', 'Cancelled 1 record.')
    await world.page.getByText('There is no such record.').waitFor()
    expect((await world.store.list({}, { limit: 1 })).records).toEqual([])
  })

  it('has a payload that is collapsed over 64 kB, and downloaded as a whole', async () => {
    const world = await open()
    await world.add('billing', { text: 'x'.repeat(100_000) })
    await world.goTo('#/stores/orders/records/1')
    await world.page.getByRole('button', { name: 'Show the first 64 kB of 100 kB' }).click()
    expect((await world.page.locator('.payload').textContent())?.length).toBeGreaterThan(60_000)
    const [download] = await Promise.all([world.page.waitForEvent('download'), world.page.getByRole('link', { name: 'Download' }).click()])
    expect(readFileSync(await download.path(), 'utf8')).toHaveLength(100_011)
  })

  it('with bytes is shown as hex', async () => {
    const world = await open()
    await world.add('billing', new Uint8Array([0, 1, 0xff]), { id: 'bytes', source: '/x' })
    await world.goTo('#/stores/orders/records/1')
    await expect.poll(() => world.page.locator('.payload').textContent()).toMatch(/^00000000 {2}00 01 ff .*\.\.\.$/)
  })

  it('has a link to its trace', async () => {
    const world = await open({ traceUrl: 'https://traces.example/{traceId}' })
    await world.add('billing', {}, { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })
    await world.goTo('#/stores/orders/records/1')
    const link = world.page.getByRole('link', { name: '0af7651916cd43dd8448eb211c80319c' })
    expect(await link.getAttribute('href')).toBe('https://traces.example/0af7651916cd43dd8448eb211c80319c')
    expect(await link.getAttribute('rel')).toContain('noopener')
  })
})

describe('the list of records', () => {
  it('groups failures, filters by one, and re-arms all that match after a preview', async () => {
    const world = await open()
    const many = Array.from({ length: 12 }, (_, index) => ({ id: `m-${index}`, error: `connect ECONNREFUSED 10.0.0.${index}` }))
    await world.addParked([...many, { id: 'other', error: 'too large' }])
    await world.goTo('#/stores/orders/records?state=parked')
    const groups = world.page.getByRole('region', { name: 'Parked records by' })
    await expect.poll(() => groups.getByRole('listitem').first().textContent()).toMatch(/^12 ×connect ECONNREFUSED/)
    await groups.getByRole('link', { name: /ECONNREFUSED/ }).click()
    await expect.poll(() => world.page.getByRole('row').count()).toBe(13)
    await world.page.getByRole('button', { name: 'Re-arm all that match', exact: true }).click()
    await world.page.getByText('This re-arms 12 records.').waitFor()
    await confirm(world.page, 'Re-arm', 'Re-armed 12 records.')
    await world.page.getByText('No record matches').waitFor()
    const left = await world.store.list({ state: 'parked' }, { limit: 20 })
    expect(left.records.map(({ lastError }) => lastError)).toEqual(['too large'])
  })

  it('discards the selected records only', async () => {
    const world = await open()
    await world.addParked(['a', 'b', 'c'].map((id) => ({ id, error: 'refused' })))
    await world.goTo('#/stores/orders/records')
    await world.page.getByLabel('Select record 1').check()
    await world.page.getByLabel('Select record 3').check()
    await world.page.getByRole('button', { name: 'Discard 2 parked' }).click()
    await world.page.getByText('This deletes 2 records permanently.').waitFor()
    await confirm(world.page, 'Discard', 'Discarded 2 records.')
    await expect.poll(() => world.page.getByRole('row').count()).toBe(2)
    expect((await world.store.list({}, { limit: 5 })).records.map(({ message }) => message.id)).toEqual(['b'])
  })

  it('gives the selected records, and then all that match, another destination and other attributes', async () => {
    const world = await open()
    await world.addParked(
      ['a', 'b', 'c', 'd'].map((id) => ({ id, error: 'unknown queue', attributes: { tenant: 'x', note: 'n', priority: 1 } })),
    )
    await world.addParked([{ id: 'other', error: 'refused', destination: 'shipping' }])
    await world.goTo('#/stores/orders/records?state=parked')
    await world.page.getByLabel('Select record 1').check()
    await world.page.getByLabel('Select record 3').check()
    await world.page.getByRole('button', { name: 'Edit and re-arm 2 parked' }).click()
    const dialog = world.page.getByRole('dialog')
    await dialog.getByText('This changes and re-arms 2 records.').waitFor()
    const save = dialog.getByRole('button', { name: 'Save and re-arm' })
    await dialog.getByLabel('Reason').fill('the queue was renamed')
    expect(await save.isDisabled()).toBe(true)
    await dialog.getByLabel('Name of attribute 1').fill('priority')
    await dialog.getByLabel('Type of attribute 1').selectOption('number')
    await dialog.getByText('The attribute priority must be a number.').waitFor()
    await dialog.getByLabel('Value of attribute 1').fill('9')
    await dialog.getByLabel('Name of attribute 2').fill('note')
    await dialog.getByLabel('Type of attribute 2').selectOption('removed')
    await dialog.getByLabel('Destination').fill('archive')
    await confirm(world.page, 'Save and re-arm', 'Re-armed 2 records.')
    const stored = async () => (await world.store.list({}, { limit: 9 })).records
    const changed = (await stored()).filter(({ state }) => state === 'ready')
    expect(changed.map(({ message, destination }) => [message.id, destination])).toEqual([
      ['a', 'archive'],
      ['c', 'archive'],
    ])
    for (const { message } of changed) {
      expect(message.attributes).toMatchObject({ priority: 9, tenant: 'x' })
      expect(message.attributes).not.toHaveProperty('note')
    }

    await world.goTo('#/stores/orders/records?destination=billing')
    await world.page.getByRole('button', { name: 'Edit and re-arm all parked that match' }).click()
    await dialog.getByText('This changes and re-arms 2 records.').waitFor()
    await dialog.getByLabel('Destination').fill('archive')
    await confirm(world.page, 'Save and re-arm', 'Re-armed 2 records.')
    expect((await stored()).map(({ message, state, destination }) => [message.id, state, destination])).toEqual([
      ...['a', 'b', 'c', 'd'].map((id) => [id, 'ready', 'archive']),
      ['other', 'parked', 'shipping'],
    ])
    expect((await world.store.audit({ limit: 1 }))[0]).toMatchObject({ action: 'rearm', count: 2, reason: 'broker is back' })
  })

  it('filters by what was typed, and pages by cursors', async () => {
    const world = await open()
    for (let number = 0; number < 120; number += 1)
      await world.add(number % 2 === 0 ? 'billing' : 'shipping', { number }, { id: `m-${number}` })
    await world.goTo('#/stores/orders/records')
    const firstRecord = () => world.page.getByRole('rowheader').first().textContent()
    await expect.poll(firstRecord).toBe('1')
    await world.page.getByLabel('Destination').fill('billing')
    await world.page.getByRole('button', { name: 'Search' }).click()
    await expect.poll(() => world.page.url()).toContain('destination=billing')
    await world.page.getByRole('button', { name: 'Next' }).click()
    await expect.poll(firstRecord).toBe('101')
    await world.page.getByRole('link', { name: 'Previous' }).click()
    await expect.poll(firstRecord).toBe('1')
    await world.page.getByLabel('Message id').fill('m-33')
    await world.page.keyboard.press('Enter')
    await world.page.getByText('No record matches').waitFor()
    await world.page.getByRole('link', { name: 'Remove the filter destination' }).click()
    await expect.poll(firstRecord).toBe('34')
  })

  it('keeps the text that the user types while the overview changes', async () => {
    const world = await open()
    await world.add('billing', {})
    await world.goTo('#/stores/orders/records')
    await world.page.getByLabel('Error contains').fill('refus')
    await world.add('billing', {})
    await world.page.getByRole('link', { name: 'ready 2' }).waitFor()
    expect(await world.page.getByLabel('Error contains').inputValue()).toBe('refus')
  })

  it('stops a long action', async () => {
    const world = await open()
    await world.addParked(['a', 'b'].map((id) => ({ id, error: 'refused' })))
    // Each step lists a page of records: the second call is that of the running action.
    const list = world.store.list.bind(world.store)
    let release = () => {}
    world.store.list = async (filter, page) => {
      if (page.limit === 500)
        await new Promise<void>((resolve) => {
          release = resolve
        })
      return await list(filter, page)
    }
    await world.goTo('#/stores/orders/records?state=parked')
    await world.page.getByRole('button', { name: 'Re-arm all that match', exact: true }).click()
    const dialog = world.page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('test')
    await dialog.getByRole('button', { name: 'Re-arm', exact: true }).click()
    const stopped = world.page.waitForResponse(/\/stop$/)
    await dialog.getByRole('button', { name: 'Stop' }).click()
    await dialog.getByText('Stopping…').waitFor()
    await stopped
    release()
    await dialog.getByText('Stopped. Re-armed 0 records.').waitFor()
  })

  it('shows the error of the server in words, and lets the user try again', async () => {
    const world = await open()
    await world.addParked([refused])
    await world.goTo('#/stores/orders/records?state=parked')
    await world.page.getByRole('button', { name: 'Re-arm all that match', exact: true }).click()
    await world.page.getByText('This re-arms 1 record.').waitFor()
    const audited = world.store.audited.bind(world.store)
    world.store.audited = async () => {
      throw new Error('the database is down')
    }
    const dialog = world.page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('test')
    await dialog.getByRole('button', { name: 'Re-arm', exact: true }).click()
    await dialog.getByText('Failed: the database is down').waitFor()
    await world.page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    world.store.audited = audited
    await world.page.getByRole('button', { name: 'Re-arm all that match', exact: true }).click()
    await confirm(world.page, 'Re-arm', 'Re-armed 1 record.')
  })
})
