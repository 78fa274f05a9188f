import type { Command } from 'commander'
import { exitCode } from '../output/errors.ts'
import type { Execute, Session } from '../session.ts'
import { newCommand, storeCommand } from '../settings/settings.ts'
import { isRedisUrl } from '../settings/urls.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

export function migrateCommand(execute: Execute): Command {
  return newCommand('migrate')
    .description('Creates, prints or validates the tables.')
    .addCommand(upCommand(execute))
    .addCommand(printCommand(execute))
    .addCommand(validateCommand(execute))
}

function upCommand(execute: Execute): Command {
  return storeCommand('up')
    .description('Creates the tables, or upgrades older ones. Idempotent, and safe to run concurrently.')
    .action(
      execute(async (session, options: StoreOptions) => {
        await using store = await openStoreOf(options, session, { create: true })
        if (store.kind === 'redis') return noTables(session)
        await store.createSchema()
        session.output.object({ store: store.address, schema: 'up to date' })
        session.output.line(`The tables in ${store.address} are up to date.`)
        return exitCode.ok
      }),
    )
}

function printCommand(execute: Execute): Command {
  return storeCommand('print')
    .description('Prints the SQL that creates the tables, for your own migrations. Connects to nothing: --store postgres: is enough.')
    .action(
      execute(async (session, options: StoreOptions) => {
        if (isRedisUrl(options.store ?? '')) return noTables(session)
        await using store = await openStoreOf(options, session, { connect: false })
        if (store.kind === 'redis') return noTables(session)
        const sql = store.printSchema()
        session.output.object({ sql })
        session.output.line(sql.trimEnd())
        return exitCode.ok
      }),
    )
}

function validateCommand(execute: Execute): Command {
  return storeCommand('validate')
    .description('Validates that the tables exist in a version that this command supports. Changes nothing.')
    .action(
      execute(async (session, options: StoreOptions) => {
        await using store = await openStoreOf(options, session)
        if (store.kind === 'redis') return noTables(session)
        await store.validateSchema()
        session.output.object({ store: store.address, schema: 'valid' })
        session.output.line(`The tables in ${store.address} are valid.`)
        return exitCode.ok
      }),
    )
}

function noTables({ output }: Session): 0 {
  output.object({ schema: 'none needed' })
  output.line('Redis needs no tables.')
  return exitCode.ok
}
