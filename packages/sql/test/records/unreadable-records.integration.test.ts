import { describe, it } from 'vitest'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { expectUnreadableParked } from '../support/unreadable-records.ts'
import { worldKinds } from '../support/world.ts'

const sql = (attributes: string, id: string) => `UPDATE ackord_outbox SET attributes = '${attributes}' WHERE id = '${id}'`

describe.each(['none', 'perKey'] as const)('a relay with order %s parks unreadable records and publishes the others', (order) => {
  it.each(worldKinds)('on $name', async ({ open }) => {
    await using world = await open()
    await expectUnreadableParked({ ...world, breakAttributes: (id, attributes) => world.query(sql(attributes, id)) }, order)
  })

  it.each(mysqlKinds)('on $name', async ({ open }) => {
    await using world = await open()
    await expectUnreadableParked({ ...world, breakAttributes: (id, attributes) => world.query(sql(attributes, id)) }, order)
  })

  it.each(sqliteKinds)('on $name', async ({ open }) => {
    await using world = await open()
    const { database } = world
    const breakAttributes = (id: string, attributes: string) =>
      database.write(async (transaction) => void transaction.exec(sql(attributes, id)))
    await expectUnreadableParked({ database, breakAttributes }, order)
  })
})
