import { describe, expect, it } from 'vitest'
import { Message } from '../../src/message/message.ts'
import { installProbe, probe } from '../../src/ports/probe.ts'
import { Router } from '../../src/router/router.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { trackedMessage } from '../support/tracked-message.ts'

describe('a probe', () => {
  it('does nothing without a hook', () => {
    expect(probe('anything')).toBeUndefined()
  })

  it('calls the hook at each point until it is removed, and waits where the hook does', async () => {
    const points: string[] = []
    let open = () => {}
    const remove = installProbe((point) => {
      points.push(point)
      return point === 'wait' ? new Promise<void>((resolve) => (open = resolve)) : undefined
    })
    expect(probe('pass')).toBeUndefined()
    const waiting = probe('wait')?.then(() => points.push('went on'))
    open()
    await waiting
    remove()
    probe('unseen')
    expect(points).toEqual(['pass', 'wait', 'went on'])
  })

  it('exists at every step of a message through the router', async () => {
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    const points: string[] = []
    const remove = installProbe(async (point) => {
      points.push(`${point}, ${calls.length} acked`)
    })
    try {
      const router = new Router({ logger: recordingLogger(), source: '/test' })
      router.handle({ type: 'order.place', handle: async () => [new Message(2, { type: 'order.placed' })] })
      const outputs: unknown[] = []
      for await (const output of router.pipe(
        (async function* () {
          yield message
        })(),
      ))
        outputs.push(output.data)
      expect(outputs).toEqual([2])
    } finally {
      remove()
    }
    expect(points).toEqual([
      'message.received, 0 acked',
      'message.handled, 0 acked',
      'message.beforeAck, 0 acked',
      'message.afterAck, 1 acked',
    ])
  })
})
