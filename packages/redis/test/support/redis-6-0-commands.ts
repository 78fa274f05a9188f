// Redis 6.0: its commands, which of them may run in a script, and the syntax of those that gained options in later versions.
// An ACL cannot check options, and the available servers are newer: so all commands are recorded and compared with this table.

/** Every command of 6.0. */
const commands: ReadonlySet<string> = new Set(
  `
  ACL APPEND ASKING AUTH BGREWRITEAOF BGSAVE BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS BLPOP BRPOP BRPOPLPUSH BZPOPMAX BZPOPMIN CLIENT CLUSTER COMMAND
  CONFIG DBSIZE DEBUG DECR DECRBY DEL DISCARD DUMP ECHO EVAL EVALSHA EXEC EXISTS EXPIRE EXPIREAT FLUSHALL FLUSHDB GEOADD GEODIST GEOHASH GEOPOS
  GEORADIUS GEORADIUSBYMEMBER GEORADIUSBYMEMBER_RO GEORADIUS_RO GET GETBIT GETRANGE GETSET HDEL HELLO HEXISTS HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS
  HLEN HMGET HMSET HSCAN HSET HSETNX HSTRLEN HVALS INCR INCRBY INCRBYFLOAT INFO KEYS LASTSAVE LATENCY LINDEX LINSERT LLEN LOLWUT LPOP LPOS LPUSH
  LPUSHX LRANGE LREM LSET LTRIM MEMORY MGET MIGRATE MODULE MONITOR MOVE MSET MSETNX MULTI OBJECT PERSIST PEXPIRE PEXPIREAT PFADD PFCOUNT PFDEBUG
  PFMERGE PFSELFTEST PING POST PSETEX PSUBSCRIBE PSYNC PTTL PUBLISH PUBSUB PUNSUBSCRIBE QUIT RANDOMKEY READONLY READWRITE RENAME RENAMENX REPLCONF
  REPLICAOF RESTORE RESTORE-ASKING ROLE RPOP RPOPLPUSH RPUSH RPUSHX SADD SAVE SCAN SCARD SCRIPT SDIFF SDIFFSTORE SELECT SET SETBIT SETEX SETNX
  SETRANGE SHUTDOWN SINTER SINTERSTORE SISMEMBER SLAVEOF SLOWLOG SMEMBERS SMOVE SORT SPOP SRANDMEMBER SREM SSCAN STRALGO STRLEN SUBSCRIBE SUBSTR
  SUNION SUNIONSTORE SWAPDB SYNC TIME TOUCH TTL TYPE UNLINK UNSUBSCRIBE UNWATCH WAIT WATCH XACK XADD XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE
  XREAD XREADGROUP XREVRANGE XSETID XTRIM ZADD ZCARD ZCOUNT ZINCRBY ZINTERSTORE ZLEXCOUNT ZPOPMAX ZPOPMIN ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK
  ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNIONSTORE`
    .trim()
    .split(/\s+/),
)

/** Refused in scripts by 6.0. XREAD and XREADGROUP are allowed without BLOCK from 6.2 on. */
const notInScripts: ReadonlySet<string> = new Set(
  `ACL AUTH BGREWRITEAOF BGSAVE BLPOP BRPOP BRPOPLPUSH BZPOPMAX BZPOPMIN CLIENT CONFIG DEBUG DISCARD EVAL EVALSHA EXEC HELLO LATENCY MODULE MONITOR
  MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE REPLCONF REPLICAOF ROLE SAVE SCRIPT SHUTDOWN SLAVEOF SUBSCRIBE SYNC UNSUBSCRIBE UNWATCH WAIT WATCH XREAD
  XREADGROUP`
    .trim()
    .split(/\s+/),
)

/** Describes the first argument that 6.0 would not understand, if any. */
type Form = (words: readonly string[]) => string | undefined

const forms: Readonly<Record<string, Form>> = {
  SET: (words) => options(words.slice(2), { EX: 1, PX: 1, NX: 0, XX: 0, KEEPTTL: 0 }),
  EXPIRE: (words) => atMost(words, 2),
  PEXPIRE: (words) => atMost(words, 2),
  EXPIREAT: (words) => atMost(words, 2),
  PEXPIREAT: (words) => atMost(words, 2),
  LPOP: (words) => atMost(words, 1),
  RPOP: (words) => atMost(words, 1),
  RESTORE: (words) => options(words.slice(3), { REPLACE: 0, ABSTTL: 0, IDLETIME: 1, FREQ: 1 }),
  FLUSHALL: (words) => options(words, { ASYNC: 0 }),
  FLUSHDB: (words) => options(words, { ASYNC: 0 }),
  INFO: (words) => atMost(words, 1),
  BITCOUNT: (words) => atMost(words, 3),
  BITPOS: (words) => atMost(words, 4),
  ZADD: (words) => leading(words.slice(1), ['NX', 'XX', 'CH', 'INCR']),
  ZRANGE: (words) => options(words.slice(3), { WITHSCORES: 0 }),
  ZREVRANGE: (words) => options(words.slice(3), { WITHSCORES: 0 }),
  ZRANGEBYSCORE: (words) => options(words.slice(3), { WITHSCORES: 0, LIMIT: 2 }),
  ZREVRANGEBYSCORE: (words) => options(words.slice(3), { WITHSCORES: 0, LIMIT: 2 }),
  ZRANGEBYLEX: (words) => options(words.slice(3), { LIMIT: 2 }),
  GEOADD: (words) => atMultiple(words.slice(1), 3),
  XADD: xadd,
  XTRIM: (words) => maxLength(words.slice(1)),
  XRANGE: (words) => inclusive(words.slice(1, 3)) ?? options(words.slice(3), { COUNT: 1 }),
  XREVRANGE: (words) => inclusive(words.slice(1, 3)) ?? options(words.slice(3), { COUNT: 1 }),
  XPENDING: xpending,
  XCLAIM: xclaim,
  XREAD: (words) => untilStreams(words, { COUNT: 1, BLOCK: 1 }),
  XREADGROUP: (words) => untilStreams(words, { GROUP: 2, COUNT: 1, BLOCK: 1, NOACK: 0 }),
  XGROUP: xgroup,
  XINFO: (words) =>
    subcommand(words, { STREAM: (rest) => options(rest.slice(1), { FULL: 0, COUNT: 1 }), GROUPS: none, CONSUMERS: none, HELP: none }),
  SCRIPT: (words) => subcommand(words, { LOAD: none, EXISTS: none, FLUSH: (rest) => atMost(rest, 0), KILL: none, DEBUG: none, HELP: none }),
  CONFIG: (words) =>
    subcommand(words, { GET: (rest) => atMost(rest, 1), SET: (rest) => atMost(rest, 2), RESETSTAT: none, REWRITE: none, HELP: none }),
  COMMAND: (words) => (words.length === 0 ? undefined : subcommand(words, { COUNT: none, GETKEYS: none, INFO: none, HELP: none })),
  OBJECT: (words) => subcommand(words, { ENCODING: none, FREQ: none, IDLETIME: none, REFCOUNT: none, HELP: none }),
  CLIENT: (words) =>
    subcommand(words, {
      CACHING: none,
      GETNAME: none,
      GETREDIR: none,
      ID: none,
      KILL: none,
      LIST: (rest) => options(rest, { TYPE: 1, ID: rest.length }),
      PAUSE: (rest) => atMost(rest, 1),
      REPLY: none,
      SETNAME: none,
      TRACKING: none,
      UNBLOCK: none,
      HELP: none,
      // Added in 7.2: clients send their names with it when they connect, and tolerate that an older server refuses it.
      SETINFO: none,
    }),
  CLUSTER: (words) => (/^(SHARDS|LINKS|ADDSLOTSRANGE|DELSLOTSRANGE)$/i.test(words[0] ?? '') ? `has no CLUSTER ${words[0]}` : undefined),
}

/** The reason why Redis 6.0 would refuse a command; `undefined` if it would accept it. */
export function problemOn60(words: readonly string[], options: { readonly inScript: boolean }): string | undefined {
  const [name = '', ...rest] = words
  const command = name.toUpperCase()
  if (!commands.has(command)) return `has no ${command}`
  if (options.inScript && notInScripts.has(command)) return `does not allow ${command} in a script`
  return forms[command]?.(rest)
}

function none(): undefined {
  return undefined
}

function atMost(words: readonly string[], count: number): string | undefined {
  return words.length <= count ? undefined : `does not know '${words[count]}' there`
}

function atMultiple(words: readonly string[], size: number): string | undefined {
  return words.length % size === 0 ? undefined : `takes groups of ${size}, without options`
}

/** Accepts only these options, each followed by the given number of values. */
function options(words: readonly string[], known: Readonly<Record<string, number>>): string | undefined {
  for (let at = 0; at < words.length; ) {
    const values = known[words[at]?.toUpperCase() ?? '']
    if (values === undefined) return `does not know the option '${words[at]}'`
    at += 1 + values
  }
  return undefined
}

/** Options that precede scores, which are numbers. */
function leading(words: readonly string[], known: readonly string[]): string | undefined {
  for (const word of words) {
    if (known.includes(word.toUpperCase())) continue
    return /^[+-]?(inf|\d)/i.test(word) ? undefined : `does not know the option '${word}'`
  }
  return undefined
}

function inclusive(ids: readonly string[]): string | undefined {
  const exclusive = ids.find((id) => id.startsWith('('))
  return exclusive === undefined ? undefined : `has no exclusive ranges, such as '${exclusive}'`
}

function xadd([, ...words]: readonly string[]): string | undefined {
  if (/^(\*|\d+(-\d+)?)$/.test(words[0] ?? '')) return undefined
  if (!/^MAXLEN$/i.test(words[0] ?? '')) return `does not know the option '${words[0]}'`
  const rest = words.slice(/^[~=]$/.test(words[1] ?? '') ? 3 : 2)
  return /^(\*|\d+(-\d+)?)$/.test(rest[0] ?? '') ? undefined : `does not know the option '${rest[0]}'`
}

function maxLength(words: readonly string[]): string | undefined {
  if (!/^MAXLEN$/i.test(words[0] ?? '')) return `does not know the option '${words[0]}'`
  return atMost(words, /^[~=]$/.test(words[1] ?? '') ? 3 : 2)
}

/** Key and group; or key, group, a range, a count and optionally a consumer. */
function xpending([, , ...words]: readonly string[]): string | undefined {
  if (words.length === 0) return undefined
  if (/^IDLE$/i.test(words[0] ?? '')) return "does not know the option 'IDLE'"
  return inclusive(words.slice(0, 2)) ?? atMost(words, 4)
}

function xclaim([, , , , ...words]: readonly string[]): string | undefined {
  const first = words.findIndex((word) => !/^\d+(-\d+)?$/.test(word))
  return first === -1 ? undefined : options(words.slice(first), { IDLE: 1, TIME: 1, RETRYCOUNT: 1, FORCE: 0, JUSTID: 0, LASTID: 1 })
}

function untilStreams(words: readonly string[], known: Readonly<Record<string, number>>): string | undefined {
  const end = words.findIndex((word) => word.toUpperCase() === 'STREAMS')
  return end === -1 ? 'needs STREAMS' : options(words.slice(0, end), known)
}

function xgroup(words: readonly string[]): string | undefined {
  return subcommand(words, {
    CREATE: (rest) => options(rest.slice(3), { MKSTREAM: 0 }),
    SETID: (rest) => atMost(rest, 3),
    DESTROY: none,
    DELCONSUMER: none,
    HELP: none,
  })
}

function subcommand([name = '', ...rest]: readonly string[], known: Readonly<Record<string, Form>>): string | undefined {
  const form = known[name.toUpperCase()]
  return form === undefined ? `does not know the subcommand '${name}'` : form(rest)
}
