import { settlePromises } from './virtual-runtime.ts'

/** The unhandled rejections while the work ran. Vitest's own listener would end the file, so it is removed meanwhile. */
export async function unhandledDuring(work: () => Promise<void>): Promise<unknown[]> {
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown) => void unhandled.push(reason)
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', onUnhandled)
  try {
    await work()
    await settlePromises()
    return unhandled
  } finally {
    process.off('unhandledRejection', onUnhandled)
    for (const other of others) process.on('unhandledRejection', other)
  }
}

/** The warnings of Node while the work ran, such as too many listeners. */
export async function warningsDuring(work: () => Promise<void>): Promise<Error[]> {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  try {
    await work()
    await settlePromises()
    return warnings
  } finally {
    process.off('warning', onWarning)
  }
}
