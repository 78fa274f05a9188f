import { createHash } from 'node:crypto'
import { InvalidOptionError, type RawMessage } from '@ackord/core'
import { keySlot } from '../../client/keys.ts'
import type { RedisArgument } from '../../client/port.ts'
import { LuaShard } from './layout.ts'

export interface LuaShardsOptions {
  readonly tag: string
  readonly name: string
  readonly count: number
  readonly keyPrefix: string
}

/** A record: its shard and its id there. */
export interface ShardEntry {
  readonly shard: LuaShard
  readonly entry: string
}

export function tagOfShard(tag: string, number: number): string {
  return number === 0 ? tag : `${tag}:${number}`
}

const idForm = /^([\w-]{22})\.(\d{1,6})$/

/** The shards of an outbox: `{tag}`, `{tag:1}`, `{tag:2}` and so on. The first has the tag of an outbox with one shard, so that its records are found when shards are added. */
export class LuaShards {
  readonly all: readonly LuaShard[]
  readonly #keyPrefix: string
  readonly #bySlot: ReadonlyMap<number, LuaShard>

  constructor({ tag, name, count, keyPrefix }: LuaShardsOptions) {
    this.all = Array.from({ length: count }, (_, number) => new LuaShard(number, tagOfShard(tag, number), name))
    this.#keyPrefix = keyPrefix
    this.#bySlot = new Map(this.all.map((shard) => [this.#slotOf(shard.key('state')), shard]))
  }

  /** By the ordering key, so that all records of a key are in one shard. */
  byKey(key: string): LuaShard {
    const { length } = this.all
    const number = length === 1 ? 0 : createHash('sha256').update(key).digest().readUInt32BE() % length
    return this.all[number] as LuaShard
  }

  of({ attributes }: RawMessage): LuaShard {
    return this.all.length === 1 ? (this.all[0] as LuaShard) : this.byKey(String(attributes.partitionkey ?? attributes.id))
  }

  /** With order per key: throws if the ordering key of this message belongs to another shard than the one where it is to be stored. */
  checkKey({ attributes: { partitionkey } }: RawMessage, shard: LuaShard): void {
    if (partitionkey === undefined || this.byKey(String(partitionkey)) === shard) return
    const own = this.byKey(String(partitionkey)).tag
    const text = `has the ordering key '${partitionkey}', whose events are under {${own}}, not under {${shard.tag}}: with order per key they must be together.`
    throw new InvalidOptionError('the message', text)
  }

  byTag(tag: string): LuaShard | undefined {
    return this.all.find((shard) => shard.tag === tag)
  }

  /** The shard in the slot of this key. */
  beside(key: RedisArgument): LuaShard | undefined {
    return this.#bySlot.get(this.#slotOf(key))
  }

  /** `undefined` for an id that this outbox never made. */
  find(id: string): ShardEntry | undefined {
    const [, entry, number] = idForm.exec(id) ?? []
    const shard = this.all[Number(number)]
    return entry === undefined || shard === undefined ? undefined : { shard, entry }
  }

  #slotOf(key: RedisArgument): number {
    return keySlot(Buffer.concat([Buffer.from(this.#keyPrefix), Buffer.from(key)]))
  }
}
