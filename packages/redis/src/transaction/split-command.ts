import type { RedisArgument } from '../client/port.ts'
import type { QueuedCommand } from '../client/queued-command.ts'
import { CommandTooLongError } from '../errors.ts'

/**
 * The maximum number of words of one command in a script. Lua's `unpack` fails from about 8,000 values on, after the commands before it have run,
 * and the server needs room on the same stack to read the reply.
 */
const maxWords = 7_000

/** The maximum number of words in each part of a split command. */
const partWords = 4_000

/** Commands that can be split: how many leading words each part repeats, and how many words behind them belong together. */
interface Division {
  readonly leading: 0 | 1
  readonly group: 1 | 2
}

const values: Division = { leading: 1, group: 1 }
const pairs: Division = { leading: 1, group: 2 }

const divisions: ReadonlyMap<string, Division> = new Map([
  ['SADD', values],
  ['SREM', values],
  ['HDEL', values],
  ['LPUSH', values],
  ['RPUSH', values],
  ['LPUSHX', values],
  ['RPUSHX', values],
  ['ZREM', values],
  ['PFADD', values],
  ['XDEL', values],
  ['HSET', pairs],
  ['HMSET', pairs],
  ['ZADD', pairs],
  ['DEL', { leading: 0, group: 1 }],
  ['UNLINK', { leading: 0, group: 1 }],
  ['MSET', { leading: 0, group: 2 }],
])

/** The command, or several with the same effect. Throws if it has more words than a script can pass on and cannot be split. */
export function splitCommand(command: QueuedCommand): readonly QueuedCommand[] {
  const { args } = command
  // A fragment checks this itself: most read their arguments one by one, and never pass them on as a whole.
  if (args.length <= maxWords || typeof command.kind !== 'string') return [command]
  const division = divisionOf(command)
  if (division === undefined) throw new CommandTooLongError(command.name, args.length, maxWords)
  const { leading, group } = division
  const step = partWords - (partWords % group)
  const parts: QueuedCommand[] = []
  for (let from = leading; from < args.length; from += step) {
    const words = [...args.slice(0, leading), ...args.slice(from, from + step)]
    const keys = leading === 1 ? firstWord : words.flatMap((_, index) => (index % group === 0 ? [index] : []))
    parts.push({ ...command, args: words, keys })
  }
  return parts
}

/** Throws if a command has more words than a script can pass on. */
export function checkWords(name: string, count: number): void {
  if (count > maxWords) throw new CommandTooLongError(name, count, maxWords)
}

const firstWord: readonly number[] = [0]

function divisionOf({ name, args, keys }: QueuedCommand): Division | undefined {
  const division = divisions.get(name.toUpperCase())
  if (division === undefined) return undefined
  const { leading, group } = division
  // Splitting a command with a wrong number of words would make valid commands of it.
  if ((args.length - leading) % group !== 0) return undefined
  if (leading === 1) {
    if (keys.length !== 1 || keys[0] !== 0) return undefined
    // ZADD may have options before the first score, which apply to all.
    return name.toUpperCase() === 'ZADD' && !isScore(args[1]) ? undefined : division
  }
  const expected = args.length / group
  return keys.length === expected && keys.every((key, index) => key === index * group) ? division : undefined
}

function isScore(word: RedisArgument | undefined): boolean {
  return word !== undefined && /^[+-]?(?:inf|\d)/i.test(String(word))
}
