import { AckordError } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { causeOf } from '../../src/delivery/outcomes.ts'

function coded(code: string, text: string): Error {
  return Object.assign(new Error(text), { code })
}

describe('the cause of a failure', () => {
  it.each([
    ['connect ECONNREFUSED 10.0.0.7:5672', 'connect ECONNREFUSED 10.0.0.9:5673'],
    ['message 17 of order 4711 is too large', 'message 18 of order 9 is too large'],
    ["queue 'orders-eu' does not exist", "queue 'orders-us' does not exist"],
    ['no route for 6f1c2d1e-9d3a-4a55-8a35-0c2b0f6e1a11', 'no route for 0b8f9b44-1a1a-4b0e-9d7c-b1f0d7c8e901'],
    ['lost 01J9ZQK8M3T5V7X9Z1B3D5F7H9', 'lost 01J9ZQK8M3T5V7X9Z1B3D5F7HA'],
  ])('is the same for %s and %s', (one, other) => {
    expect(causeOf(new Error(one))).toBe(causeOf(new Error(other)))
  })

  it('is another one for another text or code', () => {
    const causes = [
      causeOf(new Error('refused')),
      causeOf(coded('ETIMEDOUT', 'no answer')),
      causeOf(coded('ECONNRESET', 'no answer')),
      causeOf(new AckordError('ACKORD_PUBLISH_FAILED', 'no answer')),
      causeOf('no answer'),
    ]
    expect(new Set(causes).size).toBe(5)
    expect(causes[1]).toBe('ETIMEDOUT: no answer')
  })

  it('names a code once, and is short and on one line', () => {
    expect(causeOf(coded('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1'))).toBe('connect ECONNREFUSED N.N.N.N:N')
    const long = causeOf(new Error(`a\nb ${'word '.repeat(1000)}`))
    expect(long.length).toBeLessThanOrEqual(200)
    expect(long).not.toContain('\n')
  })
})
