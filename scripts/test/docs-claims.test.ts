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
  origin: /origin/i,
  dropsRepeats: /repeat/i,
  declared: /must exist/i,
} as const

/** The promises that concern a publisher without a source of its own. */
const ofPublishers: readonly (keyof typeof words)[] = ['order', 'types', 'origin', 'dropsRepeats', 'declared']

const all = Object.keys(words) as (keyof typeof words)[]
const brokers = [
  { guide: 'amqp', heading: '## What AMQP 1.0 cannot keep', test: 'amqp/test/broker-conformance', promises: all },
  { guide: 'aws', heading: '### What SQS cannot keep', test: 'aws/test/broker-conformance', promises: all },
  { guide: 'aws', heading: '### What SNS cannot keep', test: 'aws/test/publisher/sns-conformance', promises: ofPublishers },
  {
    guide: 'aws',
    heading: '### What EventBridge cannot keep',
    test: 'aws/test/publisher/event-bridge-conformance',
    promises: ofPublishers,
  },
  { guide: 'mqtt', heading: '## What MQTT cannot keep', test: 'mqtt/test/broker-conformance', promises: all },
]

describe.each(brokers)('docs/guides/$guide.md, $heading', ({ guide, heading, test, promises }) => {
  it('has a sentence for each promise that the broker does not make in its conformance suite', () => {
    const [, claims = ''] =
      /const claims: BrokerClaims = \{([^}]*)\}/.exec(readFileSync(`${root}packages/${test}.integration.test.ts`, 'utf8')) ?? []
    const made = Array.from(claims.matchAll(/(\w+):/g), ([, name]) => name)
    expect(made).not.toEqual([])
    const text = readFileSync(`${root}docs/guides/${guide}.md`, 'utf8')
    const start = text.indexOf(`\n${heading}\n`) + 1
    expect(start).toBeGreaterThan(0)
    const section = text.slice(start + heading.length).split(/\n#{2,3} /, 1)[0] ?? ''
    const missing = promises.filter((name) => !made.includes(name) && !words[name].test(section))
    expect(missing).toEqual([])
  })
})
