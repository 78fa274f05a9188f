import { AckordError, type Runtime } from '@ackord/core'
import type { RedisArgument, RedisCommand, RedisPort, Reply, Script, SendOptions } from './port.ts'

/** The server forgets scripts at a restart, a failover or SCRIPT FLUSH. Then it is sent the whole script with the same arguments. */
export async function evaluateBySha(
  send: RedisPort['send'],
  script: Script,
  keys: readonly RedisArgument[],
  args: readonly RedisArgument[],
  options?: SendOptions,
): Promise<Reply> {
  try {
    return await send(command('EVALSHA', script.sha, keys, args), options)
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    options?.onReload?.()
    return await send(command('EVAL', script.lua, keys, args), options)
  }
}

function command(name: string, text: string, keys: readonly RedisArgument[], args: readonly RedisArgument[]): RedisCommand {
  return { name, args: [text, String(keys.length), ...keys, ...args], keys: keys.map((_, index) => index + 2) }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** Opens a connection of a client's duplicate. An abort closes the duplicate, which ends the attempt; a failed attempt does as well. */
export async function connectOrClose(connect: () => Promise<unknown>, close: () => void, signal: AbortSignal | undefined): Promise<void> {
  signal?.addEventListener('abort', close, { once: true })
  try {
    await connect()
  } catch (error) {
    close()
    throw error
  } finally {
    signal?.removeEventListener('abort', close)
  }
}

/** The port, with calls that reject if there is no answer in time. The server may still carry them out, also later. */
export function withDeadline<Port extends RedisPort>(port: Port, deadline: number, runtime: Runtime): Port {
  function within(name: string, answer: Promise<Reply>, onLate: SendOptions['onLate']): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timer = runtime.setTimeout(() => {
        onLate?.(answer)
        reject(unanswered(name, deadline))
      }, deadline)
      answer.then(
        (reply) => {
          timer.cancel()
          resolve(reply)
        },
        (error: unknown) => {
          timer.cancel()
          reject(error)
        },
      )
    })
  }

  return {
    ...port,
    send: (command, options) => within(command.name, port.send(command, options), options?.onLate),
    evaluate: (script, keys, args, options) => within('a script', port.evaluate(script, keys, args, options), options?.onLate),
  }
}

function unanswered(name: string, deadline: number): AckordError {
  return new AckordError(
    'ACKORD_REDIS_UNANSWERED',
    `Redis did not answer ${name} within ${deadline} ms. Whether it was carried out is unknown. Check the connection, or set a longer deadline.`,
  )
}
