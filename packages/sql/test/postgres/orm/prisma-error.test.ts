import { expect, it } from 'vitest'
import { isPrismaConflict, serverError, sqlStateOf } from '../../../src/postgres/errors.ts'

function prismaError(code: string, originalCode?: string): Error {
  const driverAdapterError = originalCode === undefined ? undefined : { cause: { originalCode, originalMessage: 'of the server' } }
  return Object.assign(new Error('Prisma error'), { code, clientVersion: '7.10.0', meta: { driverAdapterError } })
}

function adapterError(originalCode: string | undefined): Error {
  return Object.assign(new Error('adapter error', { cause: { originalCode, kind: 'postgres' } }), { name: 'DriverAdapterError' })
}

it('finds the server error behind a Prisma error', () => {
  const error = prismaError('P2010', '42P01')
  expect(serverError(error)).toMatchObject({ message: 'of the server', code: '42P01', cause: error })
  expect(sqlStateOf(serverError(adapterError('23503')))).toBe('23503')
})

it('never mistakes a Prisma code for one of PostgreSQL: at COMMIT it would mean that nothing was committed', () => {
  for (const error of [prismaError('P2028'), prismaError('P1017'), adapterError(undefined)]) {
    expect(sqlStateOf(serverError(error))).toBeUndefined()
  }
  expect(serverError('text')).toBe('text')
})

it('recognises conflicts, however they are wrapped', () => {
  for (const conflict of [prismaError('P2034'), prismaError('P2010', '40001'), adapterError('40P01')]) {
    expect(isPrismaConflict(conflict)).toBe(true)
    expect(isPrismaConflict(new Error('wrapped', { cause: conflict }))).toBe(true)
    expect(isPrismaConflict(serverError(conflict))).toBe(true)
  }
  for (const other of [prismaError('P2002', '23505'), prismaError('P2028'), new Error('other'), undefined]) {
    expect(isPrismaConflict(other)).toBe(false)
  }
})
