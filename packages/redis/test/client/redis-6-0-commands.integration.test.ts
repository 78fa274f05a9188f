import { publishAll } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { streamPublisher, streamSource, trimStream } from '../../src/streams/index.ts'
import { event } from '../streams/world.ts'
import { problemOn60 } from '../support/redis-6-0-commands.ts'
import { flows } from '../support/redis-6-0-flows.ts'
import { redisKinds } from '../support/redis-clients.ts'
import { problemsOn60, recordRedis } from '../support/redis-recording.ts'

describe('the table of Redis 6.0 [B8]', () => {
  it.each([
    'XPENDING s g IDLE 1000 - + 10',
    'XPENDING s g (1-0 + 10',
    'XPENDING s g - + 10 consumer more',
    'XRANGE s (1-0 +',
    'XREVRANGE s + (1-0',
    'XAUTOCLAIM s g c 0 0-0',
    'XADD s NOMKSTREAM * f v',
    'XADD s MINID 1-0 * f v',
    'XADD s MAXLEN ~ 5 LIMIT 10 * f v',
    'XTRIM s MINID 1-0',
    'XTRIM s MAXLEN ~ 5 LIMIT 10',
    'XGROUP CREATECONSUMER s g c',
    'XGROUP CREATE s g 0 MKSTREAM ENTRIESREAD 5',
    'SET k v GET',
    'SET k v PXAT 5',
    'GETDEL k',
    'GETEX k',
    'ZADD z GT 1 m',
    'ZADD z NX LT 1 m',
    'ZRANGE z 0 5 BYSCORE',
    'ZMSCORE z m',
    'LPOP l 2',
    'LMOVE a b LEFT RIGHT',
    'PEXPIRE k 5 NX',
    'FCALL f 0',
    'FUNCTION LIST',
    'SCRIPT FLUSH SYNC',
    'CONFIG GET a b',
    'CLIENT UNPAUSE',
    'COPY a b',
    'HRANDFIELD h',
    'SMISMEMBER s m',
  ])('refuses %s', (line) => {
    expect(problemOn60(line.split(' '), { inScript: false })).toBeTypeOf('string')
  })

  it.each([
    'XPENDING s g',
    'XPENDING s g - + 10',
    'XPENDING s g 1-0 5-0 10 consumer',
    'XRANGE s - + COUNT 5',
    'XADD s * IDLE 5',
    'XADD s MAXLEN ~ 5 * f v',
    'XADD s 5-1 f v',
    'XTRIM s MAXLEN = 5',
    'XCLAIM s g c 0 1-0 2-0 IDLE 5 RETRYCOUNT 2 FORCE JUSTID',
    'XREADGROUP GROUP g c COUNT 5 BLOCK 10 NOACK STREAMS s >',
    'XGROUP CREATE s g 0 MKSTREAM',
    'XINFO STREAM s FULL COUNT 5',
    'set k v px 5 nx',
    'SET k v EX 5 XX KEEPTTL',
    'ZADD z NX CH INCR 1 GT',
    'ZADD z -inf m',
    'ZRANGEBYSCORE z -inf (5 WITHSCORES LIMIT 0 5',
    'ZRANGE z 0 -1 WITHSCORES',
    'SCRIPT FLUSH',
  ])('lets %s pass', (line) => {
    expect(problemOn60(line.split(' '), { inScript: false })).toBeUndefined()
  })

  it('knows which commands are not allowed in scripts', () => {
    expect(problemOn60(['XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 's', '>'], { inScript: true })).toContain('in a script')
    expect(problemOn60(['CONFIG', 'GET', 'maxmemory'], { inScript: true })).toContain('in a script')
    expect(problemOn60(['XINFO', 'GROUPS', 's'], { inScript: true })).toBeUndefined()
  })
})

describe.each(redisKinds.filter(({ cluster }) => !cluster))('a recording on $name [B8]', (kind) => {
  it('has only commands and options of Redis 6.0, also inside of scripts', async () => {
    await using server = await startRedis()
    await using client = await kind.open({ url: server.url })
    await using recording = await recordRedis(server.url)
    for (const flow of flows) await flow.run(client.redis)

    const commands = await recording.commands()
    expect(problemsOn60(commands)).toEqual([])
    // The recording must contain these commands, from the connection and from scripts; an empty recording would pass the check above.
    const seen = new Set(commands.map(({ words, inScript }) => `${inScript ? 'script' : 'client'} ${words[0]?.toUpperCase()}`))
    for (const expected of [
      'client XREADGROUP',
      'client EVALSHA',
      'client XPENDING',
      'script XADD',
      'script XACK',
      'script XCLAIM',
      'script ZADD',
    ]) {
      expect(seen).toContain(expected)
    }
    expect(seen).not.toContain('script XTRIM')
  })
})

describe('a recording', () => {
  it('shows commands of a script that 6.0 does not have: trimming with MINID', async () => {
    const [kind] = redisKinds
    if (kind === undefined) throw new Error('There is no client.')
    await using server = await startRedis()
    await using client = await kind.open({ url: server.url })
    await publishAll(streamPublisher(client.redis), 'orders', [event('m')])
    await using source = streamSource(client.redis, { stream: 'orders', group: 'g' })
    for await (const message of source.messages({ signal: new AbortController().signal })) {
      await message.ack()
      break
    }
    await using recording = await recordRedis(server.url)
    await trimStream(client.redis, { stream: 'orders' })
    expect(problemsOn60(await recording.commands())).toEqual([expect.stringContaining("does not know the option 'MINID'")])
  })
})
