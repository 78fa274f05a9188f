import { InvalidOptionError } from '@ackord/core'
import type { RedisArgument, RedisPort, Reply } from './port.ts'
import type { QueuedCommand } from './queued-command.ts'
import { asList } from './reply.ts'

/** A command whose keys come first until their positions are known. */
export interface RawCommand extends QueuedCommand {
  args: readonly RedisArgument[]
  keys: readonly number[]
}

interface KnownCommand {
  /** The number of words, including the name; negative: at least as many. */
  readonly arity: number
  readonly flags: ReadonlySet<string>
  readonly firstKey: number
  readonly lastKey: number
  readonly step: number
}

/** Asks the server about commands without a method in `RedisWrites`, and remembers the answers. In a script the server would detect errors only after other commands have run. */
export class KnownCommands {
  readonly #port: RedisPort
  readonly #known = new Map<string, KnownCommand | undefined>()
  readonly #asked = new Map<string, Promise<void>>()

  constructor(port: RedisPort) {
    this.#port = port
  }

  /**
   * Moves the keys to their positions. Throws, or rejects if the server must be asked first, if the command is not possible in a transaction;
   * returns `undefined` if there is nothing to wait for.
   */
  complete(command: RawCommand): Promise<void> | undefined {
    if (this.#known.has(command.name)) {
      this.#arrangeKeys(command)
      return undefined
    }
    let asked = this.#asked.get(command.name)
    if (asked === undefined) {
      asked = this.#ask(command.name).finally(() => this.#asked.delete(command.name))
      this.#asked.set(command.name, asked)
    }
    return asked.then(() => this.#arrangeKeys(command))
  }

  async #ask(name: string): Promise<void> {
    const reply = await this.#port.send({ name: 'COMMAND', args: ['INFO', name], keys: [] })
    this.#known.set(name, readInfo(reply))
  }

  #arrangeKeys(command: RawCommand): void {
    const known = this.#known.get(command.name)
    const problem = problemOf(command, known)
    if (problem !== undefined) throw new InvalidOptionError(`raw('${command.name}', …)`, problem)
    const positions = keysOf(known as KnownCommand, command.args.length + 1)
    const keys = command.args.slice(0, command.keys.length)
    const others = command.args.slice(command.keys.length)
    const words = Array.from({ length: command.args.length }, (_, index) => {
      const word = positions.includes(index + 1) ? keys.shift() : others.shift()
      // There are as many of both as there are words: that was checked.
      return word as RedisArgument
    })
    command.args = words
    command.keys = positions.map((position) => position - 1)
  }
}

function readInfo(reply: Reply): KnownCommand | undefined {
  const [info] = asList(reply)
  if (!Array.isArray(info)) return undefined
  const [, arity, flags, firstKey, lastKey, step] = info as readonly Reply[]
  return {
    arity: Number(arity),
    flags: new Set(asList(flags).map(String)),
    firstKey: Number(firstKey),
    lastKey: Number(lastKey),
    step: Number(step),
  }
}

function problemOf({ args, keys }: RawCommand, known: KnownCommand | undefined): string | undefined {
  if (known === undefined) return 'is a command that this server does not know.'
  const { arity, flags } = known
  // Since Redis 7.2 blocking commands are allowed in scripts, where they do not block. They are refused on every version alike.
  if (flags.has('noscript') || flags.has('blocking')) return 'is a command that cannot be in a script, and so in no transaction.'
  if (!flags.has('write')) return 'is a command that writes nothing. Read through the client, not through Ackord.'
  if (flags.has('movablekeys')) return 'is a command whose keys have no fixed positions. Use a method for it instead.'
  const words = args.length + 1
  if (arity >= 0 ? words !== arity : words < -arity) return `has ${args.length} arguments, and that is not what the command takes.`
  const expected = keysOf(known, words).length
  return expected === keys.length ? undefined : `names ${keys.length} keys, and with these arguments the command has ${expected}.`
}

/** The positions of the keys among the words. The name is at 0. */
function keysOf({ firstKey, lastKey, step }: KnownCommand, words: number): number[] {
  if (firstKey === 0) return []
  const last = lastKey < 0 ? words + lastKey : lastKey
  const positions: number[] = []
  for (let position = firstKey; position <= last; position += Math.max(step, 1)) positions.push(position)
  return positions
}
