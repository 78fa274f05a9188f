import type { RedisArgument, RedisCommand, RedisPort, Reply, SendOptions } from './port.ts'
import type { Script } from './script.ts'

/** The server forgets scripts when it restarts, fails over, or is told to: then it gets the text, with the same arguments, and knows it again. */
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
