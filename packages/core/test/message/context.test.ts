import { describe, expect, it } from 'vitest'
import {
  arrive,
  attributesKey,
  beginAttempt,
  type Context,
  contextKey,
  currentContext,
  enter,
  messageKey,
  outside,
  rootContext,
  withDeadline,
  withSignal,
} from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const tenant = contextKey<string>('tenant')
const trace = contextKey<string>('trace')

describe('context', () => {
  it('finds a value set by with, in itself and in derived contexts, and never in its parent', () => {
    const root = rootContext()
    const child = root.with(tenant, 'blue')
    expect(child.get(tenant)).toBe('blue')
    expect(child.with(trace, 't-1').get(tenant)).toBe('blue')
    expect(root.get(tenant)).toBeUndefined()
    expect(child.with(tenant, 'red').get(tenant)).toBe('red')
    expect(child.get(tenant)).toBe('blue')
  })

  it('distinguishes keys of the same name', () => {
    const other = contextKey<string>('tenant')
    expect(rootContext().with(tenant, 'blue').get(other)).toBeUndefined()
  })

  it('of a message has the message and its attributes, also after it was settled', async () => {
    const { message } = trackedMessage('data', { id: '1' })
    const context = message.context(rootContext())
    await message.ack()
    expect(context.get(messageKey)).toBe(message)
    expect(context.get(attributesKey)).toEqual({ id: '1' })
    expect(new Message(1).context(rootContext()).get(messageKey)?.data).toBe(1)
  })

  it('searches values set by with, then the message, live, then the parent', () => {
    const message = new Message('data')
    const parent = rootContext().with(tenant, 'parent').with(trace, 'parent')
    const context = message.context(parent)
    expect(context.get(tenant)).toBe('parent')
    message.withValue(tenant, 'message')
    expect(context.get(tenant)).toBe('message')
    expect(context.with(tenant, 'with').get(tenant)).toBe('with')
    expect(context.get(trace)).toBe('parent')
  })

  it('of one message does not see the values of another', () => {
    const first = new Message(1).withValue(tenant, 'first')
    const second = new Message(2)
    const root = rootContext()
    expect(first.context(root).get(tenant)).toBe('first')
    expect(second.context(root).get(tenant)).toBeUndefined()
    expect(second.context(root).get(messageKey)).toBe(second)
  })

  it.each([
    { expiry: 2000, parent: 1000, deadline: 1000 },
    { expiry: 1000, parent: 2000, deadline: 1000 },
    { expiry: 1000, parent: undefined, deadline: 1000 },
    { expiry: undefined, parent: 1000, deadline: 1000 },
    { expiry: undefined, parent: undefined, deadline: undefined },
  ])('reports the earlier of expiry $expiry and parent deadline $parent', ({ expiry, parent, deadline }) => {
    const attributes = expiry === undefined ? {} : { expirytime: new Date(expiry).toISOString() }
    const context = new Message('data', attributes).context(rootContext({ deadline: parent }))
    expect(context.deadline).toBe(deadline)
    expect(context.with(tenant, 'blue').deadline).toBe(deadline)
    expect(context.signal.aborted).toBe(false)
  })

  it('uses an earlier deadline, not a later one', () => {
    const context = rootContext({ deadline: 1000 })
    expect(withDeadline(context, 500).deadline).toBe(500)
    expect(withDeadline(context, 1500).deadline).toBe(1000)
  })

  it('is aborted with its parent and not by settling the message', async () => {
    const controller = new AbortController()
    const { message } = trackedMessage('data')
    const context = message.context(rootContext({ signal: controller.signal })).with(tenant, 'blue')
    await message.nack(new Error('failed'))
    expect(context.signal.aborted).toBe(false)
    const reason = new Error('stop')
    controller.abort(reason)
    expect(context.signal.reason).toBe(reason)
    expect(withSignal(context, new AbortController().signal).signal.aborted).toBe(false)
    expect(withSignal(context, new AbortController().signal).get(tenant)).toBe('blue')
  })

  it('accepts a foreign implementation as parent', () => {
    const foreign: Context = {
      signal: AbortSignal.abort('foreign'),
      deadline: 7,
      // A foreign context returns the same answer for every key.
      get: <V>() => 'foreign' as V,
      with: () => foreign,
    }
    const context = new Message('data').context(foreign)
    expect(context.get(tenant)).toBe('foreign')
    expect(context.deadline).toBe(7)
    expect(context.signal.reason).toBe('foreign')
  })
})

describe('ambient context', () => {
  it('is undefined outside of a handler', () => {
    expect(currentContext()).toBeUndefined()
  })

  it('is the very object that was entered, across awaits and timers', async () => {
    const context = rootContext()
    await enter(context, async () => {
      expect(currentContext()).toBe(context)
      await Promise.resolve()
      expect(currentContext()).toBe(context)
      await new Promise((resolve) => setImmediate(resolve))
      expect(currentContext()).toBe(context)
    })
    expect(currentContext()).toBeUndefined()
  })

  it('follows a changed context that is entered, and only there', async () => {
    const context = rootContext()
    await enter(context, async () => {
      const changed = context.with(tenant, 'blue')
      await enter(changed, async () => expect(currentContext()?.get(tenant)).toBe('blue'))
      expect(currentContext()).toBe(context)
    })
  })

  it('is separate for concurrent tasks', async () => {
    const seen = await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        enter(rootContext().with(tenant, name), async () => {
          await new Promise((resolve) => setImmediate(resolve))
          return currentContext()?.get(tenant)
        }),
      ),
    )
    expect(seen).toEqual(['a', 'b', 'c'])
  })

  it('does not reach work that is started outside of it', async () => {
    await enter(rootContext(), async () => {
      const later = outside(async () => {
        await Promise.resolve()
        return currentContext()
      })
      expect(await later).toBeUndefined()
      expect(currentContext()).toBeDefined()
    })
  })

  it('is disabled for contexts with ambient: false', () => {
    const context = rootContext({ ambient: false })
    expect(enter(context.with(tenant, 'blue'), () => currentContext())).toBeUndefined()
    expect(enter(new Message(1).context(withDeadline(context, 5)), () => currentContext())).toBeUndefined()
  })
})

describe('an attempt', () => {
  it('is arrived at once; a new one may be', () => {
    const context = new Message('data').context(rootContext())
    expect(arrive(context.with(tenant, 'blue'))).toBe(true)
    expect(arrive(context)).toBe(false)
    const second = beginAttempt(context)
    expect(arrive(second.with(trace, 't'))).toBe(true)
    expect(arrive(second)).toBe(false)
    expect(arrive(beginAttempt(context))).toBe(true)
  })

  it('does not count outside of a router', () => {
    expect(arrive(rootContext())).toBe(true)
    expect(arrive(rootContext())).toBe(true)
  })
})
