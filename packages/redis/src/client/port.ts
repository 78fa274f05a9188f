import { createHash } from 'node:crypto'
import type { BrokerAddress } from '@ackord/core'

/** An argument of a command. */
export type RedisArgument = string | Buffer

export interface RedisCommand {
  readonly name: string
  readonly args: readonly RedisArgument[]
  /** The indexes of the arguments that are keys. The first key selects the node of a cluster. */
  readonly keys: readonly number[]
}

/** In the form of RESP2, whatever the client speaks. Numbers may be strings, depending on the client's options: compare `String(reply)`. */
export type Reply = string | number | bigint | Buffer | null | boolean | readonly Reply[]

export interface SendOptions {
  /** Whether strings are returned as bytes. Default: false. */
  readonly binary?: boolean | undefined
  /** Called when the server did not know a script and was sent the whole. Default: none. */
  readonly onReload?: (() => void) | undefined
  /** Called when a deadline has passed, with the answer that may still come. Default: none. */
  readonly onLate?: ((answer: Promise<Reply>) => void) | undefined
}

/** Sends commands in the order of the calls. Its promises may never settle: every caller sets a deadline of its own. */
export interface RedisPort {
  /** The client's prefix, which it adds to every key. */
  readonly keyPrefix: string
  readonly cluster: boolean
  /** Rejects with an error of the server or the client. */
  send(command: RedisCommand, options?: SendOptions): Promise<Reply>
  /** Sends the script's digest, and the whole script if the server does not know it. All keys are in one slot. */
  evaluate(script: Script, keys: readonly RedisArgument[], args: readonly RedisArgument[], options?: SendOptions): Promise<Reply>
  /**
   * A connection of its own, with the client's options: commands that block or watch must not be sent on the shared one. May never settle. The
   * signal ends the attempt: clients retry by themselves, without an end.
   */
  dedicate(signal?: AbortSignal): Promise<DedicatedPort>
  /** The server that the client is connected to, for telemetry. Empty for a cluster, and for a socket in the file system. */
  server(): ServerAddress
}

export type ServerAddress = Pick<BrokerAddress, 'serverAddress' | 'serverPort'>

export interface DedicatedPort extends RedisPort {
  /** Also while a command blocks, which then rejects. */
  close(): Promise<void>
}

/** A Lua script. KEYS has every key that it uses: clusters, ACLs and the client's key prefix need them. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}

/** For scripts: `split(text)` returns the words of a string, and their number. */
export const splitLua = `local function split(text)
  local parts, count = {}, 0
  for part in string.gmatch(text, '%S+') do
    count = count + 1
    parts[count] = part
  end
  return parts, count
end`
