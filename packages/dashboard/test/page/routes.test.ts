import { describe, expect, it } from 'vitest'
import { filterOf, formatRecordQuery, isNarrowed, parseRecordQuery, queryString } from '../../page/state/record-query.ts'
import { formatRoute, parseRoute, type Route } from '../../page/state/route.ts'

describe('routes', () => {
  it.each<[string, Route]>([
    ['#/', { page: 'overview' }],
    ['#/stores/orders/records?state=parked', { page: 'records', store: 'orders', query: { state: 'parked' } }],
    ['#/stores/a%2Fb%3F/records/17%20%23%25', { page: 'record', store: 'a/b?', id: '17 #%' }],
    ['#/inbox?inbox=main&id=m-1&consumer=billing', { page: 'inbox', inbox: 'main', id: 'm-1', consumer: 'billing', source: undefined }],
    ['#/dead-letters?name=dlq', { page: 'dead-letters', name: 'dlq' }],
    ['#/dead-letters/a%2Fb/m%201', { page: 'dead-letter', name: 'a/b', id: 'm 1' }],
    ['#/audit?store=orders', { page: 'audit', store: 'orders' }],
    ['#/doctor', { page: 'doctor' }],
  ])('reads and writes %s', (hash, route) => {
    expect(parseRoute(hash)).toEqual(route)
    expect(formatRoute(route)).toBe(hash)
  })

  it.each(['', '#', '#/'])('shows the overview for %j', (hash) => {
    expect(parseRoute(hash)).toEqual({ page: 'overview' })
  })

  it.each(['#/nothing', '#/stores/orders', '#/stores//records', '#/stores/orders/records/1/2', '#/doctor/x', '#/stores/%zz/records'])(
    'does not know %s',
    (hash) => {
      expect(parseRoute(hash)).toEqual({ page: 'unknown' })
    },
  )
})

describe('queries of records', () => {
  it('survive the address', () => {
    const query = {
      state: 'waiting',
      destination: 'a&b=c',
      type: 'order.placed',
      id: '1',
      messageId: 'm#1',
      orderingKey: 'ключ +%',
      error: 'connection refused?',
      cause: 'ECONNREFUSED: <N>',
      after: 'cursor==',
      minAge: 60_000,
      maxAge: 3_600_000,
      limit: 20,
    } as const
    expect(parseRecordQuery(formatRecordQuery(query))).toEqual(query)
  })

  it('ignore what the API would reject', () => {
    expect(parseRecordQuery('?state=lost&minAge=-1&maxAge=soon&limit=1.5&type=&unknown=1')).toEqual({})
  })

  it('omit fields without a value', () => {
    expect(formatRecordQuery({ state: undefined, type: '' })).toBe('')
    expect(queryString({ a: undefined, b: '', c: 'd e' })).toBe('?c=d+e')
  })

  it('become filters without their page', () => {
    expect(filterOf({ state: 'parked', type: 'x', id: '1', after: 'c', limit: 5 })).toEqual({ state: 'parked', type: 'x' })
  })

  it('are narrowed by anything but the state', () => {
    expect([{ state: 'parked' as const, after: 'c', limit: 5 }, { id: '1' }, { cause: 'x' }].map(isNarrowed)).toEqual([false, true, true])
  })
})
