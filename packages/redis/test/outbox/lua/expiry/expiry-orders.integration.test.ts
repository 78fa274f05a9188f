import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../../../scripts/test-depth.mjs'
import { ExpiryWorld, revoked } from './expiry-world.ts'

// Scripts are atomic: every interleaving of processes is an order of their scripts. These are all orders.

type Step = 'record 1' | 'record 2' | 'revoke' | 'decide 1' | 'decide 2' | 'relay'

/** The expected result of an order, as a plain model; `due` is which of the two due times is recorded. */
class Model {
  readonly events: string[] = []
  #due: '1' | '2' | undefined
  #revoked = false
  #expired = false
  readonly #decided = new Set<string>()

  take(step: Step): string {
    const [kind, time] = step.split(' ') as [string, '1' | '2' | undefined]
    if (kind === 'relay') return ''
    if (kind === 'revoke') return this.#revoke()
    if (time === undefined) throw new Error(`${step} has no time`)
    if (this.#revoked) return this.#clear('revoked')
    return kind === 'record' ? this.#record(time) : this.#decide(time)
  }

  #record(time: '1' | '2'): string {
    if (this.#decided.has(time)) return 'decided'
    const moved = this.#due !== undefined && this.#due !== time
    this.#due = time
    this.#expired = false
    return moved ? 'moved' : 'recorded'
  }

  #revoke(): string {
    if (this.#revoked) return 'duplicate'
    if (this.#expired) return 'expired'
    this.#revoked = true
    this.events.push('ticket.revoked')
    return this.#clear('revoked')
  }

  #decide(time: '1' | '2'): string {
    if (this.#decided.has(time)) return 'duplicate'
    if (this.#due !== time) return 'not_due'
    this.#decided.add(time)
    this.#expired = true
    this.events.push('ticket.expired')
    return this.#clear('enqueued')
  }

  #clear(result: string): string {
    this.#due = undefined
    return result
  }
}

function ordersOf(steps: readonly Step[]): Step[][] {
  if (steps.length === 0) return [[]]
  const firsts = [...new Set(steps)]
  return firsts.flatMap((first) => {
    const place = steps.indexOf(first)
    return ordersOf([...steps.slice(0, place), ...steps.slice(place + 1)]).map((rest) => [first, ...rest])
  })
}

async function play(world: ExpiryWorld, subject: string, order: readonly Step[]): Promise<string[]> {
  const context = Buffer.from(subject)
  const take = async (step: Step): Promise<string> => {
    if (step === 'record 1') return await world.expiry.recordExpiry(subject, world.start - 10, context)
    if (step === 'record 2') return await world.expiry.recordExpiry(subject, world.start - 5, context)
    if (step === 'revoke') return await world.expiry.revoke(subject, revoked(subject))
    if (step === 'decide 1') return await world.decide(subject, -10)
    if (step === 'decide 2') return await world.decide(subject, -5)
    await world.relay()
    return ''
  }
  const results: string[] = []
  for (const step of order) results.push(await take(step))
  return results
}

const sets: readonly (readonly [string, readonly Step[]])[] = [
  ['tries that are repeated', ['record 1', 'record 1', 'revoke', 'decide 1', 'decide 1', 'relay']],
  ['a revocation that is repeated', ['record 1', 'revoke', 'revoke', 'decide 1', 'relay']],
  ['a second issue', ['record 1', 'record 2', 'revoke', 'decide 1', 'decide 2', 'relay']],
]

// The last set has 720 orders: only `make proof`, which may take long, runs it with both retention settings.
const cases = sets.flatMap(([name, steps]) => [false, true].map((retain) => ({ name, steps, retain })))
const chosen = isProof ? cases : cases.slice(0, -1)

describe('R23, edge 13: every order of record, revoke, decide, and publishing with deletion', () => {
  it.each(chosen)('$name, published records kept until then: $retain', { timeout: 300_000 }, async ({ steps, retain }) => {
    const orders = ordersOf(steps)
    // Runs several orders in parallel, each in its own outbox: publishing claims all records of an outbox.
    const groups = Array.from({ length: 6 }, (_, group) => orders.filter((_order, index) => index % 6 === group))
    const counts = await Promise.all(
      groups.map(async (own) => {
        await using world = await ExpiryWorld.open({ outbox: { retain } })
        for (const [number, order] of own.entries()) {
          const subject = `t${number}`
          const model = new Model()
          const expected = order.map((step) => model.take(step))
          expect(await play(world, subject, order), order.join(', ')).toEqual(expected)
          world.published.splice(0, world.published.length, ...world.published.filter((text) => text.endsWith(` ${subject}`)))
          await world.relay()
          expect(world.published, order.join(', ')).toEqual(model.events.map((type) => `${type} ${subject}`))
          // No expiry event follows a revocation, and no event is published twice.
          const last = model.events.indexOf('ticket.revoked')
          expect([-1, model.events.length - 1], order.join(', ')).toContain(last)
        }
        return own.length
      }),
    )
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(orders.length)
  })

  it('of a concurrent revocation and decisions, one takes effect', async () => {
    await using world = await ExpiryWorld.open()
    const subjects = Array.from({ length: 100 }, (_, number) => `t${number}`)
    for (const subject of subjects) await world.expiry.recordExpiry(subject, world.start, Buffer.from(subject))
    const outcomes = await Promise.all(
      subjects.map((subject, number) => {
        const revoke = () => world.expiry.revoke(subject, revoked(subject))
        const decide = () => world.decide(subject, 0)
        return Promise.all(number % 2 === 0 ? [revoke(), decide(), decide()] : [decide(), revoke(), decide()])
      }),
    )
    await world.relay()
    expect(world.published).toHaveLength(subjects.length)
    expect(new Set(world.published.map((text) => text.split(' ')[1])).size).toBe(subjects.length)
    const kinds = new Set(outcomes.map((results) => [...results].sort().join(' ')))
    for (const kind of kinds) expect(['revoked revoked revoked', 'duplicate enqueued expired']).toContain(kind)
  })
})
