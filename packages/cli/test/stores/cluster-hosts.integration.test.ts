import { describe, expect, it } from 'vitest'
import { ackord } from '../support/ackord.ts'
import { clusterUrl, openTestStore } from '../support/services.ts'

describe('several hosts of a cluster', () => {
  it.each(['127.0.0.1:1', 'no-such-host.invalid:6379'])('may include an unreachable one: %s', async (host) => {
    await using world = await openTestStore(clusterUrl)
    await world.fill('orders', 3)
    const url = clusterUrl.replace('redis+cluster://', `redis+cluster://${host},`)
    const { code, last, stderr } = await ackord(['status', '--json', '--store', url, ...world.args.slice(2)])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(last['totals']).toMatchObject({ ready: 3 })
  })
})
