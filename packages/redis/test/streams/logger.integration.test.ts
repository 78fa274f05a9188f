import { recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { next, open, openStreams, until } from './world.ts'

describe.each(['none', 'perKey'] as const)('the logger of a stream source with order %s', (order) => {
  it('logs a group that is created again and an entry that cannot be read, and the logger of the client does not', async () => {
    await using world = await openStreams()
    const logger = recordingLogger()
    const read = () => {
      throw new Error('It is no event.')
    }
    const messages = open(world.source({ order, logger, read }))
    const pulled = messages.next()
    await world.fill(['m0'])
    await until(() => logger.at('error').length === 1)
    expect(logger.at('error')).toMatchObject([
      {
        text: 'An entry is rejected without being handled.',
        fields: { origin: world.stream, deadLetter: expect.stringContaining('dead'), deliveryCount: 1, group: 'billing' },
      },
    ])
    await world.command('DEL', world.stream)
    await until(() => logger.at('warn').length === 1)
    expect(logger.at('warn')).toMatchObject([{ text: expect.stringContaining('The group is created again'), fields: { group: 'billing' } }])
    await messages.return?.()
    await pulled
    expect(world.logger.lines).toEqual([])
  })

  it('logs once that the stream cannot be read, however often it is tried, and once that it can be again', async () => {
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url, options: { deadline: 500 } })
    const logger = recordingLogger()
    let failures = 0
    const backoff = (attempt: number) => {
      failures = Math.max(failures, attempt)
      return 5
    }
    const messages = open(world.source({ order, logger, backoff, block: 50 }))
    const pulled = next(messages)
    await world.fill(['m0'])
    await (await pulled).ack()
    const again = next(messages)
    await server.kill()
    await until(() => failures >= 3)
    await server.restart()
    await until(() =>
      world.fill(['m1']).then(
        () => true,
        () => false,
      ),
    )
    await again
    const shares = order === 'none' ? 0 : 1
    await until(() => logger.at('info').length >= 1 + shares)
    const count = (part: RegExp) => logger.lines.filter(({ text }) => part.test(text)).length
    expect([count(/^The stream cannot be read: /), count(/^The stream is read again\.$/)]).toEqual([1, 1])
    expect([count(/^The shards cannot be assigned: /), count(/^The shards are assigned again\.$/)]).toEqual([shares, shares])
  })
})
