import { randomUUID } from 'node:crypto'
import { Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { type ExpiryKeyName, expiryKey, keysWithExpiry } from '../../../../src/outbox/lua/expiry/due-expiry.ts'
import {
  type Expiry,
  type ExpiryDecision,
  type LuaExpiry,
  type LuaExpiryOptions,
  luaExpiry,
} from '../../../../src/outbox/lua/expiry/lua-expiry.ts'
import { LuaWorld, type LuaWorldSettings, lease, published } from '../lua-world.ts'

export const namespace = '7c0f3a6e-2b5d-4e1f-9a8b-6c4d2e0f1a3b'

export interface ExpiryWorldSettings extends LuaWorldSettings {
  readonly expiry?: LuaExpiryOptions | undefined
}

/** Expiry on an outbox with its own tag. All keys are deleted at the end. The server's clock stands still at `start` until a test moves it. */
export class ExpiryWorld implements AsyncDisposable {
  readonly start: number = Date.UTC(2026, 5, 1)
  readonly expiry: LuaExpiry
  /** The ids of the published events, in order. */
  readonly published: string[] = []
  readonly world: LuaWorld
  readonly #name: string

  private constructor(world: LuaWorld, settings: ExpiryWorldSettings) {
    this.world = world
    this.#name = settings.expiry?.name ?? 'expiry'
    this.expiry = luaExpiry(world.store, namespace, settings.expiry)
  }

  static async open(settings: ExpiryWorldSettings = {}): Promise<ExpiryWorld> {
    const opened = new ExpiryWorld(await LuaWorld.open(settings), settings)
    await opened.at(0)
    return opened
  }

  /** Sets the server's clock, in milliseconds after `start`. */
  async at(after: number): Promise<void> {
    await this.world.stopClockAt(this.start + after)
  }

  key(name: ExpiryKeyName): string {
    return this.world.port.keyPrefix + expiryKey(this.world.shard, this.#name, name)
  }

  get keys(): readonly string[] {
    return this.world.shards.flatMap((shard) => keysWithExpiry(shard, this.#name).map((key) => this.world.port.keyPrefix + key))
  }

  decide(subject: string, after: number, context: Uint8Array | undefined = Buffer.from(subject)): Promise<ExpiryDecision> {
    return this.expiry.decideExpiry({ subject, dueAt: this.start + after, context }, expired)
  }

  /** Publishes all claimable records, and deletes retained ones. */
  async relay(): Promise<void> {
    const claimed = await this.world.store.claim({ limit: 1000, lease })
    this.published.push(...claimed.map(({ message }) => `${message.type} ${message.attributes.subject}`))
    await this.world.store.settle(claimed.map(published))
    await this.world.store.deletePublished({ olderThan: 0, limit: 1000 })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      for (const shard of this.world.shards) {
        await this.world.command('DEL', ...keysWithExpiry(shard, this.#name).map((key) => this.world.port.keyPrefix + key))
      }
    } catch {
      // The server of this world is already stopped.
    }
    await this.world[Symbol.asyncDispose]()
  }
}

export function expired({ subject, dueAt, context }: Expiry): NewOutboxRecord {
  const attributes = {
    id: 'replaced',
    type: 'ticket.expired',
    source: '/tickets',
    specversion: '1.0',
    subject,
    dueat: String(dueAt),
  } as const
  return { destination: 'tickets', message: new Message(context, attributes) }
}

export function revoked(subject: string, id: string = randomUUID()): NewOutboxRecord {
  const attributes = { id, type: 'ticket.revoked', source: '/tickets', specversion: '1.0', subject } as const
  return { destination: 'tickets', message: new Message(new Uint8Array(), attributes) }
}
