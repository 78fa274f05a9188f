import { createHash } from 'node:crypto'

/** As it goes to the server. */
export type RedisArgument = string | Buffer

export interface RedisCommand {
  readonly name: string
  readonly args: readonly RedisArgument[]
  /** Which of the arguments are keys. The first one of them leads to the node of a cluster. */
  readonly keys: readonly number[]
}

/** In the shape of RESP2, whatever the client speaks. Numbers may come as text, if the client was told to give them so: compare `String(reply)`. */
export type Reply = string | number | bigint | Buffer | null | boolean | readonly Reply[]

export interface SendOptions {
  /** Whether text comes as bytes. Default: false. */
  readonly binary?: boolean | undefined
  /** Told when the server did not know a script and was given it whole. Default: nothing. */
  readonly onReload?: (() => void) | undefined
  /** Called when a deadline has passed, with the answer that may still come. Default: it is ignored. */
  readonly onLate?: ((answer: Promise<Reply>) => void) | undefined
}

/** Sends commands in the order of the calls. Its promises may never settle: every caller sets a deadline of its own. */
export interface RedisPort {
  /** The client's own, which it puts before every key that it is given. */
  readonly keyPrefix: string
  readonly cluster: boolean
  /** Rejects with the server's error or the client's. */
  send(command: RedisCommand, options?: SendOptions): Promise<Reply>
  /** By the script's digest, and whole if the server does not know it. All keys are in one slot. */
  evaluate(script: Script, keys: readonly RedisArgument[], args: readonly RedisArgument[], options?: SendOptions): Promise<Reply>
  /**
   * A connection for nobody else, made like the client's: what blocks or watches must not be on the one that all share. May never settle. The
   * signal ends the attempt: clients go on trying by themselves, for ever.
   */
  dedicate(signal?: AbortSignal): Promise<DedicatedPort>
}

export interface DedicatedPort extends RedisPort {
  /** Also while a command blocks: it then rejects. */
  close(): Promise<void>
}

/** A Lua script. Every key that it touches is in KEYS: only then a cluster, an ACL and the client's key prefix know of it. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}
