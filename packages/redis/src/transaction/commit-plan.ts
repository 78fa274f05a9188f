import type { RedisArgument } from '../client/port.ts'
import type { KeyKind, QueuedCommand } from '../client/queued-command.ts'
import type { CommandQueue, Guard } from './command-queue.ts'

const letters: Readonly<Record<KeyKind, string>> = {
  string: 's',
  counter: 'i',
  number: 'f',
  hyperloglog: 'p',
  hash: 'h',
  'hash-counter': 'c',
  'hash-number': 'r',
  list: 'l',
  set: 'e',
  zset: 'z',
  stream: 'x',
  members: 'u',
  sets: 't',
  strings: 'b',
  any: 'a',
}

/** Appends a transaction to both lists, in the form that the commit script reads. */
export function addTransaction(keys: RedisArgument[], args: RedisArgument[], marker: string, token: string, queue: CommandQueue): void {
  keys.push(marker)
  const at = args.push(token, '') - 1
  let plan = ''
  for (const guard of queue.guards) plan += addGuard(keys, args, guard)
  for (const command of queue.commands) plan += addCommand(keys, args, command)
  for (const event of queue.events) plan += addCommand(keys, args, event)
  args[at] = plan
}

function addGuard(keys: RedisArgument[], args: RedisArgument[], { key, field, value, whole }: Guard): string {
  keys.push(key)
  if (whole === true) {
    args.push(value ?? '')
    return 'w1:0'
  }
  if (field === undefined) {
    args.push(value ?? '')
    return value === null ? 'n1:0' : 'g1:0'
  }
  args.push(field)
  if (value === null) return 'm1:0'
  args.push(value)
  return 'k1:1'
}

function addCommand(keys: RedisArgument[], args: RedisArgument[], command: QueuedCommand): string {
  const { name, args: words, keys: indexes, kind, mustExist } = command
  args.push(name)
  const count = indexes.length
  if (typeof kind !== 'string') {
    for (let index = 0; index < count; index += 1) keys.push(words[index] as RedisArgument)
    for (let index = count; index < words.length; index += 1) args.push(words[index] as RedisArgument)
    return `${kind.letter}${count}:${words.length - count}`
  }
  const letter = mustExist === true ? letters[kind].toUpperCase() : letters[kind]
  if (count === 1 && indexes[0] === 0) {
    keys.push(words[0] as RedisArgument)
    for (let index = 1; index < words.length; index += 1) args.push(words[index] as RedisArgument)
    return `${letter}1:${words.length - 1}`
  }
  if (count === 2 && indexes[0] === 0 && indexes[1] === 1) {
    keys.push(words[0] as RedisArgument, words[1] as RedisArgument)
    for (let index = 2; index < words.length; index += 1) args.push(words[index] as RedisArgument)
    return `${letter}2:${words.length - 2}`
  }
  args.push(indexes.map((index) => index + 1).join(','))
  words.forEach((word, index) => {
    if (indexes.includes(index)) keys.push(word)
    else args.push(word)
  })
  return `${letter}${count}@${words.length - count + 1}`
}

/** The name and the first key of the n-th guard or command of a transaction, from 1. */
export function commandAt(queue: CommandQueue, n: number): { readonly name: string; readonly key: RedisArgument | undefined } {
  const { guards, commands, events } = queue
  const guard = guards[n - 1]
  if (guard !== undefined) return { name: 'the guard', key: guard.key }
  const command = [...commands, ...events][n - 1 - guards.length]
  const [first] = command?.keys ?? []
  return { name: command?.name ?? 'a command', key: first === undefined ? undefined : command?.args[first] }
}
