import { Writable } from 'node:stream'
import { pino } from 'pino'
import { describe, expect, it, vi } from 'vitest'
import { consoleLogger, guardLogger, type Logger } from '../../src/ports/observability.ts'
import { framesOf, isOwnFrame, packagesFolders } from '../../src/ports/stack-frames.ts'
import { Router } from '../../src/router/router.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { trackedMessage } from '../support/tracked-message.ts'

function withFrames(...frames: readonly string[]): Error {
  const error = new Error('broken')
  error.stack = `Error: broken\n${frames.map((frame) => `    at ${frame}`).join('\n')}`
  return error
}

const application = 'placeOrder (file:///app/src/orders.js:3:11)'
const driver = 'Client.query (/app/node_modules/pg/lib/client.js:9:9)'
const own = 'Router.run (file:///app/node_modules/@ackord/core/dist/router/router.js:160:5)'
const node = 'process.processTicksAndRejections (node:internal/process/task_queues:103:5)'

describe('a frame', () => {
  it.each([
    own,
    'async Router.run (/app/node_modules/.pnpm/@ackord+core@0.4.0/node_modules/@ackord/core/dist/router/router.js:1:2)',
    'file:///app/node_modules/@ackord/sql/dist/transactional.js:1:2',
    'run (C:\\app\\node_modules\\@ackord\\core\\dist\\router\\router.js:1:2)',
    'async run (file:///C:/app/node_modules/@ackord/core/dist/router/router.js:1:2)',
    'main (/usr/lib/node_modules/ackord/dist/main.js:1:2)',
    node,
    'node:internal/main/run_main_module:36:49',
    'async node:internal/modules/esm/loader:1:2',
    'new Promise (node:internal/x:1:2)',
  ])('is ours or of Node: %s', (frame) => {
    expect(isOwnFrame(`at ${frame}`)).toBe(true)
  })

  it.each([
    application,
    driver,
    'handle (/app/ackord/src/handler.ts:1:2)',
    'handle (/app/node_modules/ackord-contrib/index.js:1:2)',
    'handle (C:\\app\\src\\orders.js:1:2)',
    'Promise.all (index 0)',
    'new Promise (<anonymous>)',
  ])('is not: %s', (frame) => {
    expect(isOwnFrame(`at ${frame}`)).toBe(false)
  })

  it.each([
    ['file:///home/me/ackord/packages/core/src/ports/stack-frames.ts', '/home/me/ackord/packages'],
    ['file:///home/me/ackord/packages/core/dist/ports/stack-frames.js?v=1', 'file:///home/me/ackord/packages'],
    ['file:///home/my%20code/packages/core/dist/ports/stack-frames.js', '/home/my code/packages'],
    ['file:///home/my%20code/packages/core/dist/ports/stack-frames.js', 'file:///home/my%20code/packages'],
    ['file:///C:/ackord/packages/core/dist/ports/stack-frames.js', 'C:\\ackord\\packages'],
    ['file:///C:/ackord/packages/core/dist/ports/stack-frames.js', 'file:///C:/ackord/packages'],
  ])('is ours in a checkout that is linked: %s and %s', (url, folder) => {
    const folders = packagesFolders(url)
    expect(isOwnFrame(`at run (${folder}/sql/dist/inbox/inbox.js:1:2)`, folders)).toBe(true)
    expect(isOwnFrame(`at run (${folder}/sql/test/inbox.test.ts:1:2)`, folders)).toBe(false)
    expect(isOwnFrame('at run (/app/sql/dist/inbox.js:1:2)', folders)).toBe(false)
  })

  it.each(['file:///app/dist/main.js', 'file:///app/core/dist/main.js', 'https://example.com/core/dist/ports/stack-frames.js', undefined])(
    'of an application that bundles us is not ours: %s',
    (url) => {
      expect(packagesFolders(url)).toEqual([])
    },
  )
})

describe('the frames of an error', () => {
  it('are those of the application and its drivers, in their order', () => {
    const error = withFrames(own, driver, own, application, node)
    expect(framesOf(error, 'foreign')).toEqual([`at ${driver}`, `at ${application}`])
    expect(framesOf(error, 'all')).toHaveLength(5)
  })

  it('are the first two if all are ours, so that a bug can be reported', () => {
    expect(framesOf(withFrames(own, node, own), 'foreign')).toEqual([`at ${own}`, `at ${node}`])
  })

  it('are none for an error without a stack, or with one that cannot be read', () => {
    expect(framesOf(Object.assign(new Error('x'), { stack: undefined }), 'foreign')).toEqual([])
    const unreadable = Object.defineProperty(new Error('x'), 'stack', {
      get() {
        throw new Error('no')
      },
    })
    expect(framesOf(unreadable, 'all')).toEqual([])
  })
})

describe('the stack in a log line', () => {
  const loggedBy = (logger: Logger & { lines: readonly { fields: object }[] }, error: Error): Error => {
    guardLogger(logger).error({ err: error }, 'It failed.')
    const [line] = logger.lines
    return line?.fields && 'err' in line.fields ? (line.fields.err as Error) : new Error('Nothing was logged.')
  }

  it('has no frames of ours, also in causes and aggregated errors, and the error itself keeps them', () => {
    const cause = withFrames(own, driver)
    const inner = withFrames(application, own)
    const error = Object.assign(new AggregateError([inner], 'all failed', { cause }), {
      stack: `AggregateError: all failed\n    at ${own}\n    at ${application}`,
    })
    const before = [error.stack, cause.stack, inner.stack]
    const logged = loggedBy(recordingLogger(), error) as AggregateError
    expect([logged.stack, (logged.cause as Error).stack, logged.errors[0].stack]).toEqual([
      `AggregateError: all failed\n    at ${application}`,
      `Error: broken\n    at ${driver}`,
      `Error: broken\n    at ${application}`,
    ])
    expect(logged).toBeInstanceOf(AggregateError)
    expect(Object.prototype.toString.call(logged)).toBe('[object Error]')
    expect([error.stack, cause.stack, inner.stack]).toEqual(before)
  })

  it('is the same object if there is nothing to leave out', () => {
    const error = withFrames(application)
    expect(loggedBy(recordingLogger(), error)).toBe(error)
  })

  it.each<[string, object, number]>([
    ['level debug', { level: 'debug' }, 3],
    ['level trace', { level: 'trace' }, 3],
    ['level info', { level: 'info' }, 1],
    ['isLevelEnabled() true', { isLevelEnabled: (level: string) => level === 'debug' }, 3],
    ['isLevelEnabled() false', { level: 'debug', isLevelEnabled: () => false }, 1],
    ['no level', {}, 1],
  ])('is complete only if the logger shows debug lines: %s', (_name, properties, frames) => {
    const logged = loggedBy(Object.assign(recordingLogger(), properties), withFrames(own, application, node))
    expect(logged.stack?.split('\n').slice(1)).toHaveLength(frames)
  })

  it('is short with the console, and starts with the frame that threw', () => {
    const written: string[] = []
    const spy = vi.spyOn(console, 'error').mockImplementation((line: string) => void written.push(line))
    try {
      consoleLogger.error({ err: withFrames(own, application, node) }, 'It failed.')
    } finally {
      spy.mockRestore()
    }
    expect(written).toEqual([`It failed.\n    Error: broken\n    at ${application}`])
  })

  it.each([
    ['info', 0],
    ['debug', 1],
  ] as const)('of a handler that fails has at pino level %s frames of ours: %i or more', async (level, atLeast) => {
    const lines: string[] = []
    const stream = new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk))
        done()
      },
    })
    const router = new Router({ logger: pino({ level }, stream) })
    router.handle({
      type: 'order.place',
      async handle() {
        throw new Error('The database is down.')
      },
    })
    const { message } = trackedMessage({}, { type: 'order.place', id: 'm-1' })
    async function* input() {
      yield message
    }
    for await (const _output of router.pipe(input())) throw new Error('There is no output.')
    const [, ...frames] = JSON.parse(lines.join('')).err.stack.split('\n')
    expect(frames[0]).toContain('stack-frames.test.ts')
    const ours = frames.filter((line: string) => line.includes('/core/src/'))
    if (atLeast === 0) expect(ours).toEqual([])
    else expect(ours.length).toBeGreaterThanOrEqual(atLeast)
  })
})
