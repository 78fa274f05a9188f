import { expect, it } from 'vitest'
import { demo } from '../src/demo.ts'

it('applies every order once and publishes its event once, through duplicates, failures and an outage', async () => {
  const steps: string[] = []
  const result = await demo(120, { onStep: (text) => steps.push(text), onProgress() {} })
  expect(result).toEqual({ orders: 120, applied: 120, events_published: 120, duplicates_skipped: 40, lost: 0, applied_twice: 0 })
  expect(steps).toHaveLength(4)
  expect(steps[3]).toContain('60 events that waited')
}, 60_000)
