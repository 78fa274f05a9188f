import { ErrorWithReasonCode } from 'mqtt'
import { expect, it } from 'vitest'
import { publishFailed } from '../../src/publisher/publish-failures.ts'

it.each([
  [0x80, { error: { message: expect.stringContaining('0x80') } }],
  [0x83, { error: { message: expect.stringContaining('0x83') } }],
  [0x87, { scope: 'destination', error: { message: expect.stringContaining('not allowed') } }],
  [0x90, { scope: 'destination', error: { message: expect.stringContaining('as a topic') } }],
  [0x91, { error: { message: expect.stringContaining('0x91') } }],
  [0x95, { permanent: true, error: { message: expect.stringContaining('too large') } }],
  [0x97, { scope: 'destination', error: { message: expect.stringContaining('quota') } }],
  [0x99, { permanent: true, error: { message: expect.stringContaining('payload') } }],
  [0x9b, { scope: 'destination', error: { message: expect.stringContaining('qos: 1') } }],
])('reason code %i of a broker says what is at fault', (code, expected) => {
  const cause = new ErrorWithReasonCode('Publish error', code)

  expect(publishFailed('orders', cause)).toMatchObject({ ok: false, ...expected, error: { ...expected.error, cause } })
})

it('without a reason code, the message may have been delivered, and the destination is at fault', () => {
  const failure = publishFailed('orders', new Error('Connection closed'))

  expect(failure).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('may have been delivered') } })
})
