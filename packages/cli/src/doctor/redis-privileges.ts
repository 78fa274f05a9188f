import { systemRuntime } from '@ackord/core'
import { CommandError } from '../output/errors.ts'
import type { RedisStore } from '../stores/store.ts'
import { type Check, check, privilegeCheck, runCheck } from './check.ts'

type Argument = string | number

/**
 * The commands of transactions, inboxes and both outboxes, on the server and inside scripts, each with arguments that change nothing: `key` is a string
 * that expires soon, so that commands for other types fail. A test compares the list with the scripts.
 */
export const redisCommands: Readonly<
  Record<'all' | 'stream' | 'lua', Readonly<Record<string, (key: string) => readonly (readonly Argument[])[]>>>
> = {
  all: {
    TIME: () => [[]],
    // For clients that ask whether the server has loaded its data, as ioredis does.
    INFO: () => [['server']],
    EVAL: (key) => [['return 1', 1, key]],
    // A script that does not exist.
    EVALSHA: (key) => [['0'.repeat(40), 1, key]],
    GET: (key) => [[key]],
    DEL: (key) => [[`${key}:none`]],
    EXISTS: (key) => [[key]],
    PEXPIRE: (key) => [[key, 1000]],
    PTTL: (key) => [[key]],
    TYPE: (key) => [[key]],
    HDEL: (key) => [[key, 'a']],
    HEXISTS: (key) => [[key, 'a']],
    HGET: (key) => [[key, 'a']],
    HINCRBY: (key) => [[key, 'a', 0]],
    HLEN: (key) => [[key]],
    HMGET: (key) => [[key, 'a']],
    HSCAN: (key) => [[key, 0]],
    HSET: (key) => [[key, 'a', 'b']],
    HSETNX: (key) => [[key, 'a', 'b']],
    XADD: (key) => [[key, '*', 'a', 'b']],
    XREAD: (key) => [['COUNT', 1, 'STREAMS', key, '0']],
    XREVRANGE: (key) => [[key, '+', '-', 'COUNT', 1]],
    ZADD: (key) => [[key, 0, 'a']],
    ZRANGEBYSCORE: (key) => [[key, 0, 0]],
    ZREM: (key) => [[key, 'a']],
    ZSCORE: (key) => [[key, 'a']],
  },
  stream: {
    SADD: (key) => [[key, 'a']],
    SMEMBERS: (key) => [[key]],
    SREM: (key) => [[key, 'a']],
    XACK: (key) => [[key, 'a', '0-1']],
    XCLAIM: (key) => [[key, 'a', 'b', 0, '0-1']],
    XDEL: (key) => [[key, '0-1']],
    XGROUP: (key) => [
      ['CREATE', key, 'a', '$'],
      ['SETID', key, 'a', '$'],
      ['DELCONSUMER', key, 'a', 'b'],
    ],
    XINFO: (key) => [
      ['GROUPS', key],
      ['CONSUMERS', key, 'a'],
      ['STREAM', key],
    ],
    XLEN: (key) => [[key]],
    XPENDING: (key) => [[key, 'a']],
    XRANGE: (key) => [[key, '-', '+', 'COUNT', 1]],
    XREADGROUP: (key) => [['GROUP', 'a', 'b', 'COUNT', 1, 'STREAMS', key, '>']],
    ZCARD: (key) => [[key]],
    ZCOUNT: (key) => [[key, 0, 0]],
  },
  lua: {
    HGETALL: (key) => [[key]],
    HSTRLEN: (key) => [[key, 'a']],
    INCRBY: (key) => [[key, 0]],
    ZLEXCOUNT: (key) => [[key, '-', '+']],
    ZRANGEBYLEX: (key) => [[key, '-', '+']],
    ZREVRANGEBYLEX: (key) => [[key, '+', '-']],
  },
}

/** Commands that would create the key if it were not there. */
const creating: ReadonlySet<string> = new Set(['HINCRBY', 'HSET', 'HSETNX', 'XADD', 'ZADD', 'SADD', 'INCRBY'])

/** Tries every command, because hardly any user may read its own ACL. */
export async function redisPrivileges(store: RedisStore): Promise<Check> {
  return await runCheck('privileges', async () => {
    const commands = new Set<string>()
    const patterns: string[] = []
    for (const tag of store.tags) {
      // The commands are the same for every tag, the keys are not.
      const denied = await denialsOf(store, tag, tag === store.tags[0] ? { ...redisCommands.all, ...redisCommands[store.outboxKind] } : {})
      for (const command of denied.commands) commands.add(command)
      if (denied.keys) patterns.push(`~${patternOf(tag)}`)
    }
    const rules = [...[...commands].map((command) => `+${command.toLowerCase()}`), ...patterns]
    if (rules.length > 0) return privilegeCheck(store.user, [`ACL SETUSER ${[store.user, ...rules].map(quoted).join(' ')}`])
    return await verified(store)
  })
}

interface Denials {
  readonly commands: readonly string[]
  /** Whether the keys are denied; also if that cannot be seen, because no command with a key is allowed. */
  readonly keys: boolean
}

async function denialsOf(store: RedisStore, tag: string, known: (typeof redisCommands)['all']): Promise<Denials> {
  const key = `{${tag}}:doctor:${systemRuntime.uuid()}`
  const setting = await denialOf(store, 'SET', [key, '1', 'PX', 5000])
  const commands: string[] = setting === 'command' ? ['SET'] : []
  const outcomes = [setting]
  for (const [command, calls] of Object.entries(known)) {
    if (setting === 'command' && creating.has(command)) {
      commands.push(command)
      continue
    }
    for (const args of calls(key)) {
      const denial = await denialOf(store, command, args)
      if (denial === 'command' && !commands.includes(command)) commands.push(command)
      if (args.some((each) => String(each).startsWith(key))) outcomes.push(denial)
    }
  }
  return { commands, keys: outcomes.includes('key') || !outcomes.includes(undefined) }
}

/** For a Lua outbox, whose scripts check themselves. */
async function verified(store: RedisStore): Promise<Check> {
  try {
    await store.verify()
    return privilegeCheck(store.user, [])
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return check('privileges', 'problem', `${error.message} ${error.hint ?? ''}`.trim())
  }
}

async function denialOf(store: RedisStore, command: string, args: readonly Argument[]): Promise<'command' | 'key' | undefined> {
  try {
    await store.send(command, ...args)
    return undefined
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    if (!text.startsWith('NOPERM')) {
      // The reply of a server to a command that ran: WRONGTYPE, NOGROUP, NOSCRIPT, ERR. Anything else is a failure of the connection.
      if (/^[A-Z]+ /.test(text)) return undefined
      throw error
    }
    return /permissions? to access/i.test(text) ? 'key' : 'command'
  }
}

/** All keys under the tag. */
function patternOf(tag: string): string {
  return `{${tag.replaceAll(/[*?[\]\\^]/g, '\\$&')}}*`
}

/** As `redis-cli` reads it. */
function quoted(text: string): string {
  return /^[^\s"'\\]+$/.test(text) ? text : JSON.stringify(text)
}
