import { expect, it } from 'vitest'
import { ackord } from '../support/ackord.ts'

it('measures appends and relayed records of the store', async () => {
  const { code, last, stderr } = await ackord(['bench', '--store', 'sqlite:', '--records', '300', '--json'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(last).toEqual({ records: 300, appends_per_second: expect.any(Number), relayed_per_second: expect.any(Number) })
  expect(last['appends_per_second']).toBeGreaterThan(0)
  expect(last['relayed_per_second']).toBeGreaterThan(0)
})

it('prints the measurements', async () => {
  const { stdout } = await ackord(['bench', '--store', 'sqlite:', '--records', '50'])
  expect(stdout).toMatch(/\d+ transactions per second/)
  expect(stdout).toMatch(/\d+ records per second from the outbox of sqlite:/)
})
