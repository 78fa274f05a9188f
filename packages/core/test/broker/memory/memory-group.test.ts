import { expect, it } from 'vitest'
import { MemoryGroup } from '../../../src/broker/memory/memory-group.ts'
import { MemorySchedule } from '../../../src/broker/memory/memory-schedule.ts'
import { VirtualRuntime } from '../../support/virtual-runtime.ts'

it('keeps no message and no key when it is closed', () => {
  const group = new MemoryGroup('default', { orderPerKey: true, schedule: new MemorySchedule(new VirtualRuntime()), release: () => {} })
  for (const partitionkey of ['a', 'a', 'b']) {
    group.add({ data: new Uint8Array(), attributes: { partitionkey }, open: 1, previous: undefined, next: undefined })
  }
  expect([group.ready, group.keys]).toEqual([2, 2])
  group.close()
  expect([group.ready, group.keys]).toEqual([0, 0])
})
