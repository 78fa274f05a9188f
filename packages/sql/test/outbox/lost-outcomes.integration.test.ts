import { describe, it } from 'vitest'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { expectCountedWhenLeft } from '../support/lost-outcomes.ts'
import { worldKinds } from '../support/world.ts'

describe('a member whose outcomes were too late counts an attempt for their records when it leaves', () => {
  it.each(worldKinds)('on $name', async ({ open }) => {
    await using world = await open()
    await expectCountedWhenLeft(world.database, () =>
      world.query("UPDATE ackord_relays SET alive_until = clock_timestamp() - interval '1 second'"),
    )
  })

  it.each(mysqlKinds)('on $name', async ({ open }) => {
    await using world = await open()
    await expectCountedWhenLeft(world.database, () =>
      world.query('UPDATE ackord_relays SET alive_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND'),
    )
  })

  it.each(sqliteKinds)('on $name', async ({ open }) => {
    await using world = await open()
    const { database } = world
    await expectCountedWhenLeft(database, () =>
      database.write(async (transaction) => void transaction.exec('UPDATE ackord_relays SET alive_until = 1')),
    )
  })
})
