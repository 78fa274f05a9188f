import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { root } from './docs-blocks.ts'

/** A word that the guide of a broker must have in its section on what the broker cannot keep, for each promise of `BrokerClaims` that the broker does not make. */
const words = {
  competing: /competing|share/i,
  order: /order/i,
  settlesEach: /acks|acknowledg/i,
  delay: /delay/i,
  deliveryCount: /count/i,
  groups: /group/i,
  replay: /replay/i,
  types: /types|texts/i,
  dropsRepeats: /repeat/i,
  declared: /must exist/i,
} as const

const brokers = [
  { guide: 'amqp', heading: '## What AMQP 1.0 cannot keep', test: 'packages/amqp/test/broker-conformance.integration.test.ts' },
  { guide: 'aws', heading: '### What SQS cannot keep', test: 'packages/aws/test/broker-conformance.integration.test.ts' },
  { guide: 'mqtt', heading: '## What MQTT cannot keep', test: 'packages/mqtt/test/broker-conformance.integration.test.ts' },
]

describe.each(brokers)('docs/guides/$guide.md', ({ guide, heading, test }) => {
  it('has a sentence for each promise that the broker does not make in its conformance suite', () => {
    const [, claims = ''] = /const claims: BrokerClaims = \{([^}]*)\}/.exec(readFileSync(root + test, 'utf8')) ?? []
    const made = Array.from(claims.matchAll(/(\w+):/g), ([, name]) => name)
    expect(made).toContain('delay')
    const text = readFileSync(`${root}docs/guides/${guide}.md`, 'utf8')
    const start = text.indexOf(`\n${heading}\n`) + 1
    expect(start).toBeGreaterThan(0)
    const section = text.slice(start + heading.length).split(/\n#{2,3} /, 1)[0] ?? ''
    const missing = Object.entries(words).flatMap(([name, word]) => (made.includes(name) || word.test(section) ? [] : [name]))
    expect(missing).toEqual([])
  })
})
