import type { RedisArgument } from '../port.ts'
import type { StoredRecord } from './record-body.ts'

/** What became of a record: it is stored now, it was already, or another one is there under its id, and it is not stored. */
export type EnqueueResult = 'inserted' | 'duplicate' | 'conflict'

export interface EnqueueTerms {
  /** Whether a conflict is an error, so that nothing is stored. */
  readonly strict: boolean
  /** Of whoever takes the records right away. Default: nobody. */
  readonly lease?: { readonly token: string; readonly duration: number } | undefined
}

/** As `ackord.enqueue` takes them. */
export function enqueueArguments(records: readonly StoredRecord[], { strict, lease }: EnqueueTerms): RedisArgument[] {
  const args: RedisArgument[] = [String(records.length), strict ? '1' : '0', lease?.token ?? '', String(Math.ceil(lease?.duration ?? 0))]
  for (const { id, lane, destination, print, delay, body } of records) args.push(id, lane, destination, print, String(delay), body)
  return args
}

export interface EnqueueAnswer {
  /** By the server's clock. */
  readonly now: number
  readonly results: readonly EnqueueResult[]
}

const signs: Readonly<Record<string, EnqueueResult>> = { '+': 'inserted', '=': 'duplicate', '!': 'conflict' }

export function readEnqueueAnswer(reply: string): EnqueueAnswer {
  const colon = reply.indexOf(':')
  return { now: Number(reply.slice(0, colon)), results: Array.from(reply.slice(colon + 1), (sign) => signs[sign] ?? 'conflict') }
}
