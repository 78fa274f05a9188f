import type { RedisPort } from '../../src/client/port.ts'

export interface CountingPort {
  readonly port: RedisPort
  /** How many calls the work makes, and its result. */
  costOf<T>(work: () => Promise<T>): Promise<[number, T]>
}

/** Counts the calls that pass through a port. `before`: is called before each, with the name of the command or the text of the script. */
export function countingPort(port: RedisPort, before: (called: string) => Promise<void> = async () => {}): CountingPort {
  let calls = 0
  async function counted<T>(called: string, call: () => Promise<T>): Promise<T> {
    calls += 1
    await before(called)
    return await call()
  }
  return {
    port: {
      ...port,
      send: (command, options) => counted(command.name, () => port.send(command, options)),
      evaluate: (script, keys, args, options) => counted(script.lua, () => port.evaluate(script, keys, args, options)),
    },
    async costOf(work) {
      const first = calls
      const result = await work()
      return [calls - first, result]
    },
  }
}
