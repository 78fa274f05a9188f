import { beforeAll, expect, it } from 'vitest'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, postgresUrl, rabbitmqUrl } from '../support/services.ts'

beforeAll(bundleMain)

// As a standby, which `make proof` has: the same error for every statement that writes.
const readOnlyUrl = `${postgresUrl}?options=${encodeURIComponent('-c default_transaction_read_only=on')}`

it('a read-only server can be read, and each command that writes says that it is read-only', async () => {
  await using world = await openTestStore(postgresUrl)
  await world.fill('orders', 3)
  await world.park()
  const place = ['--store', readOnlyUrl, ...world.args.slice(2)]
  const status = await ackord(['status', ...place, '--json'])
  expect(status).toMatchObject({ code: 0, last: { totals: { parked: 3 } } })
  const rearm = await ackord(['rearm', ...place, '--all'])
  expect(rearm.stderr).toMatch(/the server is read-only \(cannot execute .* in a read-only transaction\)\.\n {2}Is it a replica\?/)
  expect(rearm.code).toBe(4)
  expect(await world.count('parked')).toBe(3)
})

it('a relay on a read-only server reports the error, and goes on trying', async () => {
  await using world = await openTestStore(postgresUrl)
  const relay = start(['relay', '--from', readOnlyUrl, ...world.args.slice(2), '--to', rabbitmqUrl, '--json'])
  await relay.said('The outbox store failed.')
  expect(relay.stdout).toMatch(/"level":"error".*read-only transaction/)
  relay.child.kill('SIGTERM')
  expect((await relay.ended).code).toBe(0)
})
