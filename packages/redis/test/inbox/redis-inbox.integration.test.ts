import { Message, rootContext, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { inboxMiddleware, redisInbox } from '../../src/index.ts'
import { openHandlingWorld } from '../support/handling-world.ts'
import { redisKinds } from '../support/redis-clients.ts'

const known = { consumer: 'orders', source: '/shop' }

describe.each(redisKinds.filter(({ cluster }) => !cluster))('the inbox for operators on $name', (kind) => {
  it('shows a message in progress, and does not forget it', async () => {
    await using world = await openHandlingWorld(kind)
    const inbox = redisInbox(world.redis, { tag: world.tag, logger: silentLogger })
    const message = new Message({}, { id: 'm1', type: 'order.place', source: '/shop' })
    const handle = inboxMiddleware(
      world.redis,
      world.inbox({ lease: 30_000 }),
    )(async () => {
      expect(await inbox.find('m1', known)).toMatchObject([{ ...known, id: 'm1', state: 'inProgress' }])
      expect(await inbox.forget('m1', known)).toBe(0)
      return []
    })
    await handle(message, message.context(rootContext()))
    expect(await inbox.find('m1', known)).toMatchObject([{ state: 'handled' }])
    expect(await inbox.forget('m1', known)).toBe(1)
  })

  it('says until when a message is remembered, by the clock of the server', async () => {
    await using world = await openHandlingWorld(kind)
    const inbox = redisInbox(world.redis, { tag: world.tag, logger: silentLogger })
    const message = new Message({}, { id: 'm1', type: 'order.place', source: '/shop' })
    await inboxMiddleware(world.redis, world.inbox({ retention: 3_600_000 }))(async () => [])(message, message.context(rootContext()))
    const [entry] = await inbox.find('m1', known)
    const [seconds] = (await world.command('TIME')) as string[]
    const left = (entry?.expiresAt ?? 0) - Number(seconds) * 1000
    expect(left).toBeGreaterThan(3_500_000)
    expect(left).toBeLessThan(3_602_000)
    expect(entry?.handledAt).toBeUndefined()
  })

  it('shows and forgets a message whose writes were carried out in part', async () => {
    await using world = await openHandlingWorld(kind)
    const inbox = redisInbox(world.redis, { tag: world.tag, logger: silentLogger })
    const message = new Message({}, { id: 'm1', type: 'order.place', source: '/shop' })
    await inboxMiddleware(world.redis, world.inbox())(async () => [])(message, message.context(rootContext()))
    const [marker = ''] = await world.keys('inbox')
    await world.command('SET', `{${world.tag}}:${marker}`, 'partial:token:2 failed')
    expect(await inbox.find('m1', known)).toMatchObject([{ state: 'partial', expiresAt: undefined }])
    expect(await inbox.forget('m1', known)).toBe(1)
    expect(await inbox.find('m1', known)).toEqual([])
  })

  it('requires the consumer and the source, of which its keys have a hash', async () => {
    await using world = await openHandlingWorld(kind)
    const inbox = redisInbox(world.redis)
    const invalid = (option: string) =>
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(`${option} is required`) })
    await expect(inbox.find('m1')).rejects.toThrow(invalid('consumer'))
    await expect(inbox.find('m1', { consumer: 'orders' })).rejects.toThrow(invalid('source'))
    await expect(inbox.forget('m1', { consumer: 'orders' })).rejects.toThrow(invalid('source'))
    expect(() => redisInbox(world.redis, { tags: 'a' } as object)).toThrow('tags')
    expect(() => redisInbox(world.redis, { tag: '' })).toThrow('tag')
  })
})
