import { describe, expect, it } from 'vitest'
import { PendingKeys } from '../../src/ordering/pending-keys.ts'

const of = (key: string, seq: number) => ({ destination: 'events', partition: 7, key, seq: String(seq) })
const next = (keys: PendingKeys, limit = 10) => keys.next(['events'], limit, () => false).map(({ key, after }) => `${key} after ${after}`)
const claim = (keys: PendingKeys, key: string, ...seqs: number[]) => {
  for (const seq of seqs) keys.claimed(of(key, seq), { behind: false })
}
const settle = (keys: PendingKeys, key: string, ...results: ('published' | 'failed' | 'parked' | undefined)[]) => {
  for (const result of results) keys.settled(of(key, 0), result)
}

describe('PendingKeys', () => {
  it('visits a key once for the records that were read, and from the end of a published run on', () => {
    const keys = new PendingKeys()
    keys.read(of('a', 1))
    keys.read(of('a', 2))
    keys.read(of('b', 3))
    expect(next(keys)).toEqual(['a after 0', 'b after 0'])
    claim(keys, 'a', 1, 2)
    expect(next(keys)).toEqual(['b after 0'])
    settle(keys, 'a', 'published', 'published')
    keys.read(of('a', 2))
    expect(next(keys)).toEqual(['b after 0'])
    keys.read(of('a', 9))
    expect(next(keys)).toEqual(['b after 0', 'a after 2'])
  })

  it('does not visit a key while one of its records is in flight, and then for what was read meanwhile', () => {
    const keys = new PendingKeys()
    claim(keys, 'a', 1, 2)
    settle(keys, 'a', 'published')
    keys.read(of('a', 3))
    keys.found(of('a', 3), { isHead: true })
    expect(next(keys)).toEqual([])
    settle(keys, 'a', 'published')
    expect(next(keys)).toEqual(['a after 2'])
  })

  it.each(['failed', 'parked', undefined] as const)('searches from the same seq again after a run with the outcome %s', (result) => {
    const keys = new PendingKeys()
    claim(keys, 'a', 1)
    settle(keys, 'a', 'published')
    claim(keys, 'a', 5, 6)
    settle(keys, 'a', 'published', result)
    expect(next(keys)).toEqual(['a after 1'])
  })

  it('searches from the end of the run that was published, not from that of a longer one that was released before', () => {
    const keys = new PendingKeys()
    claim(keys, 'a', 3, 1, 2)
    settle(keys, 'a', undefined, undefined, undefined)
    claim(keys, 'a', 2, 1)
    settle(keys, 'a', 'published', 'published')
    expect(next(keys)).toEqual(['a after 2'])
  })

  it('never searches only behind a parked record, which may become ready again', () => {
    const keys = new PendingKeys()
    claim(keys, 'a', 1)
    settle(keys, 'a', 'parked')
    claim(keys, 'a', 2)
    settle(keys, 'a', 'published')
    keys.claimed(of('b', 4), { behind: true })
    settle(keys, 'b', 'published')
    keys.read(of('a', 3))
    keys.read(of('b', 5))
    expect(next(keys)).toEqual(['a after 0', 'b after 0'])
  })

  it('searches a key from its beginning if a record is found where none should be', () => {
    const keys = new PendingKeys()
    claim(keys, 'a', 5)
    settle(keys, 'a', 'published')
    keys.found(of('a', 3), { isHead: true })
    expect(next(keys)).toEqual(['a after 0'])
  })

  it('visits a key that was found by a walk until it is empty, because its other records may not be read', () => {
    const keys = new PendingKeys()
    keys.found(of('a', 1), { isHead: true })
    claim(keys, 'a', 1, 2)
    settle(keys, 'a', 'published', 'published')
    expect(next(keys)).toEqual(['a after 2'])
    keys.empty({ ...of('a', 0), after: '2' })
    expect(next(keys)).toEqual([])
    claim(keys, 'a', 3)
    settle(keys, 'a', 'published')
    expect(next(keys)).toEqual([])
  })

  it('forgets the oldest keys without records, and no others', () => {
    const keys = new PendingKeys()
    claim(keys, 'in flight', 1)
    keys.read(of('pending', 2))
    claim(keys, 'old', 3)
    settle(keys, 'old', 'published')
    for (let count = 0; count < 100_000; count += 1) {
      claim(keys, `k${count}`, 4 + count)
      settle(keys, `k${count}`, 'published')
    }
    keys.read(of('old', 200_000))
    keys.read(of('k99999', 200_001))
    keys.read(of('in flight', 200_002))
    expect(next(keys)).toEqual(['pending after 0', 'old after 0', 'k99999 after 100003'])
    settle(keys, 'in flight', 'published')
    expect(next(keys).at(-1)).toBe('in flight after 1')
  })

  it('takes the same number of keys from each destination, and skips those that are held elsewhere', () => {
    const keys = new PendingKeys()
    for (const destination of ['one', 'two']) for (const key of ['a', 'b', 'c']) keys.read({ ...of(key, 1), destination })
    const taken = keys.next(['one', 'two'], 4, ({ destination, key }) => destination === 'one' && key === 'a')
    expect(taken.map(({ destination, key }) => `${destination}/${key}`)).toEqual(['one/b', 'one/c', 'two/a', 'two/b'])
  })
})
