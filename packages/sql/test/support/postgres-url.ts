export const postgresUrl: string = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
