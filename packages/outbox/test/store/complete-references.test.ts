import { expect, it } from 'vitest'
import { completeReferences } from '../../src/store/record-checks.ts'

const outbox = { source: '/shop', destination: 'orders' }

it('takes the source and the destination of the outbox where a reference has none, for one reference or several', () => {
  const whole = { destination: 'mails', source: '/branch', id: 'b' }
  expect(completeReferences({ id: 'a' }, outbox)).toEqual([{ destination: 'orders', source: '/shop', id: 'a' }])
  expect(completeReferences([{ id: 'a', destination: 'mails' }, whole], outbox)).toEqual([
    { destination: 'mails', source: '/shop', id: 'a' },
    whole,
  ])
  expect(completeReferences([], outbox)).toEqual([])
})

it.each([
  ['no id', {}, outbox, 'references[].id must be a non-empty string.'],
  ['an empty id', { id: '' }, outbox, 'references[].id must be a non-empty string.'],
  ['no source', { id: 'a' }, { destination: 'orders' }, 'references[].source must be a non-empty string: the outbox has none.'],
  ['no destination', { id: 'a' }, { source: '/shop' }, 'references[].destination must be a non-empty string: the outbox has none.'],
  [
    'a destination that depends on the event',
    { id: 'a' },
    { source: '/shop', destination: () => 'orders' },
    'references[].destination must be a non-empty string: that of the outbox is a function.',
  ],
  ['an id alone', 'a', outbox, 'references must be { id }, or { destination, source, id }, or an array of these; it has a string.'],
])('rejects %s', (_, reference, options, expected) => {
  expect(() => completeReferences(reference as never, options)).toThrow(expected)
})
