import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { sign, signatureProblem, signingKeys } from '../../src/cloudevents/signature.ts'
import { secretOf } from '../support/world.ts'

const now = Date.now()
const seconds = String(Math.floor(now / 1000))
const [secret, other] = [secretOf('one'), secretOf('two')]
const body = new TextEncoder().encode('{"text":"für 5 €"}')
const clock = { now, tolerance: 300_000 }

function signed(secrets: string | string[], more: Record<string, string> = {}): { headers: Headers; body: Uint8Array } {
  const signature = sign(signingKeys('sign', secrets), 'msg_1', seconds, body)
  return { headers: new Headers({ 'webhook-id': 'msg_1', 'webhook-timestamp': seconds, 'webhook-signature': signature, ...more }), body }
}

describe('signatures', () => {
  it('are compatible with standardwebhooks in both directions', () => {
    const theirs = new Webhook(secret)
    const headers = Object.fromEntries(signed(secret).headers)
    expect(theirs.verify(Buffer.from(body).toString(), headers)).toEqual({ text: 'für 5 €' })

    const signature = theirs.sign('msg_1', new Date(now), Buffer.from(body).toString())
    expect(signatureProblem(signingKeys('verify', secret), signed(other, { 'webhook-signature': signature }), clock)).toBeUndefined()
  })

  it('stay valid while a secret is rotated, on either side', () => {
    expect(signatureProblem(signingKeys('verify', secret), signed([other, secret]), clock)).toBeUndefined()
    expect(signatureProblem(signingKeys('verify', [other, secret]), signed(secret), clock)).toBeUndefined()
    expect(() =>
      new Webhook(secret).verify(Buffer.from(body).toString(), Object.fromEntries(signed([other, secret]).headers)),
    ).not.toThrow()
  })

  it.each([
    ['another secret', signed(other)],
    ['another body', { ...signed(secret), body: new Uint8Array([1]) }],
    ['another id', signed(secret, { 'webhook-id': 'msg_2' })],
    ['another time', signed(secret, { 'webhook-timestamp': String(Number(seconds) - 1) })],
    ['a time that is no number', signed(secret, { 'webhook-timestamp': '1e9' })],
    ['an empty signature', signed(secret, { 'webhook-signature': 'v1,' })],
    [
      'another version',
      signed(secret, { 'webhook-signature': signed(secret).headers.get('webhook-signature')?.replace('v1', 'v1a') ?? '' }),
    ],
    ['no headers', { headers: new Headers(), body }],
  ])('do not hold with %s', (_title, request) => {
    expect(signatureProblem(signingKeys('verify', secret), request, clock)).toEqual(expect.any(String))
  })

  it('are valid within the tolerance, in both directions', () => {
    const at = (shift: number) =>
      signatureProblem(signingKeys('verify', secret), signed(secret), { now: Number(seconds) * 1000 + shift, tolerance: 300_000 })

    expect([at(300_000), at(-300_000)]).toEqual([undefined, undefined])
    expect([at(300_001), at(-300_001)]).toEqual([expect.any(String), expect.any(String)])
  })
})

describe('secrets', () => {
  it.each([[''], ['whsec_'], ['whsec_not base64!'], ['whsec_AAAAA'], [[]], [[secret, 'x?']], [7]])(
    'are refused, and not shown: %j',
    (wrong) => {
      let error: unknown
      try {
        signingKeys('sign', wrong as string)
      } catch (thrown) {
        error = thrown
      }
      expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      expect(String(error)).not.toContain('not base64!')
      expect(String(error)).not.toContain(secret)
    },
  )
})
