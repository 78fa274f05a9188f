import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { failuresCheck, type TableVersion } from '../../src/contract/table-version.ts'
import { settlesFailures } from '../../src/records/claimed-record.ts'

function open(version: number) {
  const runtime = new VirtualRuntime()
  const tables = { version, reads: 0, problem: undefined as Error | undefined }
  const read = async (): Promise<TableVersion> => {
    tables.reads += 1
    if (tables.problem !== undefined) throw tables.problem
    return { version: tables.version, oldestReader: 1 }
  }
  return { runtime, tables, keepsFailures: failuresCheck(read, runtime) }
}

const claimed = { id: '1', token: 't' }

describe('the version of the tables', () => {
  it('is read once if it is current', async () => {
    const { runtime, tables, keepsFailures } = open(4)
    expect(await Promise.all([keepsFailures(), keepsFailures()])).toEqual([true, true])
    await runtime.advance(3_600_000)
    expect(await keepsFailures()).toBe(true)
    expect(tables.reads).toBe(1)
  })

  it('is read again once a minute while it is older', async () => {
    const { runtime, tables, keepsFailures } = open(3)
    expect([await keepsFailures(), await keepsFailures()]).toEqual([false, false])
    tables.version = 4
    await runtime.advance(59_000)
    expect([await keepsFailures(), tables.reads]).toEqual([false, 1])
    await runtime.advance(1000)
    expect([await keepsFailures(), await keepsFailures(), tables.reads]).toEqual([true, true, 2])
  })

  it('is read again after an error', async () => {
    const { tables, keepsFailures } = open(4)
    tables.problem = new Error('connection lost')
    await expect(keepsFailures()).rejects.toThrow('connection lost')
    tables.problem = undefined
    expect(await keepsFailures()).toBe(true)
  })

  it('is not read for published records, and does not keep failures from being settled', async () => {
    const { tables, keepsFailures } = open(4)
    const published = { outcome: { ...claimed, result: 'published' } } as const
    const parked = { outcome: { ...claimed, result: 'parked', error: 'no' } } as const
    expect(await settlesFailures([published, published], keepsFailures)).toBe(false)
    expect(tables.reads).toBe(0)
    tables.problem = new Error('permission denied')
    expect(await settlesFailures([published, parked], keepsFailures)).toBe(false)
    tables.problem = undefined
    expect(await settlesFailures([published, parked], keepsFailures)).toBe(true)
  })
})
