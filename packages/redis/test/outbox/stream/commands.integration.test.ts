import { expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { redisKinds } from '../../support/redis-clients.ts'
import { problemsOn60, recordRedis } from '../../support/redis-recording.ts'
import { useStreamOutbox } from './stream-outbox-flow.ts'

it.each(redisKinds.filter(({ cluster }) => !cluster))(
  'B8: uses only commands and options of Redis 6.0, also in scripts: $name',
  async (kind) => {
    await using server = await startRedis()
    await using client = await kind.open({ url: server.url })
    await using recording = await recordRedis(server.url)
    await useStreamOutbox(client.redis)
    const commands = await recording.commands()
    expect(problemsOn60(commands)).toEqual([])
    const seen = new Set(commands.map(({ words, inScript }) => `${inScript ? 'script' : 'client'} ${words[0]?.toUpperCase()}`))
    for (const expected of ['client XREAD', 'script XPENDING', 'script XCLAIM', 'script XACK', 'script XDEL', 'script XGROUP']) {
      expect(seen).toContain(expected)
    }
    // Unpublished records must never be removed, neither by a MAXLEN nor by trimming.
    expect([...seen].filter((name) => name.endsWith('XTRIM'))).toEqual([])
    const limited = commands.filter(({ words }) => words[0]?.toUpperCase() === 'XADD' && words.includes('MAXLEN'))
    expect(new Set(limited.map(({ words }) => words[1]))).toEqual(new Set(['{flow}:outbox:wake']))
  },
)
