import { describe, expect, it } from 'vitest'
import { memoryProcesses } from '../../src/helpers/memory-processes.ts'
import { MemoryStore } from '../../src/helpers/memory-store.ts'
import { openMemoryProcessWorld } from '../../src/suites/process/process-world.ts'
import { testProcessStore } from '../../src/suites/process/test-process-store.ts'

testProcessStore({ describe, it }, { name: 'memoryProcesses()', open: openMemoryProcessWorld })

describe('memoryProcesses()', () => {
  it('rejects unknown options', () => {
    const create = () => memoryProcesses(new MemoryStore(), { keep: 1 } as object)
    expect(create).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
  })
})
