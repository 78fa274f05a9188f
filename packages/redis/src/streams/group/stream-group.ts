import type { DedicatedPort, RedisArgument, RedisPort, Reply, script } from '../../client/port.ts'
import { asList, says } from '../../client/reply.ts'
import type { RedisInternals } from '../../transaction/redis.ts'
import { companionKey } from '../entries/stream-names.ts'
import * as scripts from './group-scripts.ts'

/** An entry as the group delivers it. */
export interface DeliveredEntry {
  readonly id: string
  /** `undefined`: it was deleted from the stream while it was pending, and is acked. */
  readonly fields: readonly Buffer[] | undefined
  /** This one included. */
  readonly deliveries: number
}

export interface PendingEntry {
  readonly id: string
  readonly consumer: string
  readonly idle: number
  readonly deliveries: number
}

export type Verdict =
  | { readonly kind: 'ack'; readonly id: string; readonly deliveries: number }
  | { readonly kind: 'nack'; readonly id: string; readonly deliveries: number; readonly delay: number; readonly count: number }
  | { readonly kind: 'dead'; readonly id: string; readonly deliveries: number; readonly letter: readonly RedisArgument[] }

/** Under this name nacked entries wait in the group until their time has come. No consumer is called so. */
const waitingConsumer = 'ackord-waiting'

export interface GroupSettings {
  readonly stream: string
  readonly group: string
  readonly consumer: string
  /** Where rejected entries go, if that is a stream beside this one. */
  readonly deadLetter: string
}

/** A stream and one consumer of one of its groups: what is asked of the server, and nothing remembered. */
export class StreamGroup {
  readonly stream: string
  readonly group: string
  readonly consumer: string
  readonly #port: RedisPort
  readonly #retry: string
  readonly #deadLetter: string

  constructor(redis: RedisInternals, settings: GroupSettings) {
    this.stream = settings.stream
    this.group = settings.group
    this.consumer = settings.consumer
    this.#port = redis.port
    this.#retry = companionKey(redis.port.keyPrefix, settings.stream, `retry:${settings.group}`)
    this.#deadLetter = settings.deadLetter
  }

  /** Makes the group, and the stream, if they are not there. */
  async create(from: '0' | '$'): Promise<void> {
    try {
      await this.#port.send({ name: 'XGROUP', args: ['CREATE', this.stream, this.group, from, 'MKSTREAM'], keys: [1] })
    } catch (error) {
      if (!says(error, 'BUSYGROUP')) throw error
    }
  }

  /** Entries that no consumer of the group has had. Waits for one, on a connection of its own. */
  async read(connection: DedicatedPort, count: number, block: number): Promise<readonly DeliveredEntry[]> {
    const args = ['GROUP', this.group, this.consumer, 'COUNT', String(count), 'BLOCK', String(block), 'STREAMS', this.stream, '>']
    const reply = await connection.send({ name: 'XREADGROUP', args, keys: [8] }, { binary: true })
    const [found] = asList(reply)
    return asList(asList(found)[1]).map((entry) => toEntry([...asList(entry), 1]))
  }

  /** Nacked entries whose time has come, and how many milliseconds it is to the next one's. */
  async takeDue(limit: number): Promise<{ readonly entries: readonly DeliveredEntry[]; readonly next: number }> {
    const reply = await this.#evaluate(scripts.takeDue, [this.#retry], [String(limit)], true)
    const [taken, next] = asList(reply)
    return { entries: asList(taken).map(toEntry), next: Number(next) === -1 ? Infinity : Number(next) }
  }

  async takeOver(ids: readonly string[], idle: number, limit: number): Promise<readonly DeliveredEntry[]> {
    return asList(await this.#evaluate(scripts.takeOver, [this.#retry], [String(idle), String(limit), ...ids], true)).map(toEntry)
  }

  async takeAgain(id: string, deliveries: number): Promise<DeliveredEntry | 'GONE' | 'LOST'> {
    const reply = await this.#evaluate(scripts.takeAgain, [], [id, String(deliveries)], true)
    if (Array.isArray(reply)) return toEntry(reply)
    return String(reply) === 'GONE' ? 'GONE' : 'LOST'
  }

  /** For the owner of a shard; `LOST` if that is another. `more`: where to go on, if there may be more. */
  async takeRange(
    lease: { readonly key: string; readonly token: string; readonly duration: number },
    range: { readonly from: string; readonly to: string; readonly limit: number; readonly known: readonly string[] },
  ): Promise<{ readonly entries: readonly DeliveredEntry[]; readonly more: string | undefined } | 'LOST'> {
    const { from, to, limit, known } = range
    const args = [lease.token, String(lease.duration), from, to, String(limit), ...known]
    const reply = await this.#evaluate(scripts.takeRange, [lease.key], args, true)
    if (!Array.isArray(reply)) return 'LOST'
    const [taken, more] = asList(reply)
    const last = String(more)
    return { entries: asList(taken).map(toEntry), more: last === '' ? undefined : last }
  }

  /** One page of what is delivered and not acked. */
  async pending(from: string, count: number): Promise<readonly PendingEntry[]> {
    const reply = await this.#port.send({ name: 'XPENDING', args: [this.stream, this.group, from, '+', String(count)], keys: [0] })
    return asList(reply).map((entry) => {
      const [id, consumer, idle, deliveries] = asList(entry)
      return { id: String(id), consumer: String(consumer), idle: Number(idle), deliveries: Number(deliveries) }
    })
  }

  /** One answer per verdict: 'OK', 'GONE', 'LOST', or what the server said. */
  async settle(verdicts: readonly Verdict[]): Promise<readonly string[]> {
    const args: RedisArgument[] = [waitingConsumer]
    for (const verdict of verdicts) {
      const more = valuesOf(verdict)
      args.push(verdict.kind, verdict.id, String(verdict.deliveries), String(more.length), ...more)
    }
    return asList(await this.#evaluate(scripts.settle, [this.#retry, this.#deadLetter], args)).map(String)
  }

  /** The ids that are no longer this consumer's. */
  async keep(ids: readonly string[]): Promise<readonly string[]> {
    return asList(await this.#evaluate(scripts.keep, [], ids)).map(String)
  }

  /** Everything that this consumer holds, except for these. */
  async giveBack(kept: readonly string[]): Promise<void> {
    const limit = 500
    let given = limit
    while (given >= limit) {
      given = Number(await this.#evaluate(scripts.giveBack, [this.#retry], [waitingConsumer, String(limit), ...kept]))
    }
  }

  async uncount(ids: readonly string[]): Promise<void> {
    await this.#evaluate(scripts.uncount, [], ids)
  }

  /** `undefined`: it is not in the stream any more. */
  async fetch(id: string): Promise<readonly Buffer[] | undefined> {
    const [entry] = asList(await this.#evaluate(scripts.fetch, [], [id], true))
    return entry === undefined ? undefined : (asList(asList(entry)[1]) as readonly Buffer[])
  }

  /** Others that hold nothing and were given nothing for this long. One of them that lives comes to be again with its next entry. */
  async removeDeadConsumers(idle: number): Promise<void> {
    const reply = await this.#port.send({ name: 'XINFO', args: ['CONSUMERS', this.stream, this.group], keys: [1] })
    for (const consumer of asList(reply)) {
      const facts = toFacts(asList(consumer))
      const name = facts.get('name') ?? ''
      if (name === this.consumer || name === waitingConsumer || Number(facts.get('idle')) < idle || facts.get('pending') !== '0') continue
      await this.#port.evaluate(scripts.removeConsumer, [this.stream], [this.group, name])
    }
  }

  /** Unless it holds something. */
  async removeConsumer(): Promise<void> {
    await this.#evaluate(scripts.removeConsumer, [], [])
  }

  #evaluate(body: ReturnType<typeof script>, keys: readonly string[], args: readonly RedisArgument[], binary = false): Promise<Reply> {
    return this.#port.evaluate(body, [this.stream, ...keys], [this.group, this.consumer, ...args], { binary })
  }
}

function valuesOf(verdict: Verdict): readonly RedisArgument[] {
  if (verdict.kind === 'ack') return []
  return verdict.kind === 'nack' ? [String(verdict.delay), String(verdict.count)] : verdict.letter
}

function toEntry(reply: Reply): DeliveredEntry {
  const [id, fields, deliveries] = asList(reply)
  return {
    id: String(id),
    fields: Array.isArray(fields) ? (fields as readonly Buffer[]) : undefined,
    deliveries: Number(deliveries),
  }
}

/** `[name, value, …]`, as the server describes its things. */
function toFacts(list: readonly Reply[]): ReadonlyMap<string, string> {
  return new Map(Array.from({ length: list.length / 2 }, (_, index) => [String(list[2 * index]), String(list[2 * index + 1])]))
}
