import { resolve } from 'node:path'
import { usageError } from '../command-error.ts'

/** The file that `sqlite:orders.db`, `sqlite:/var/lib/orders.db` or `sqlite:///var/lib/orders.db` names. */
export function sqlitePath(url: string): string {
  const path = url
    .trim()
    .slice('sqlite:'.length)
    .replace(/^\/\/(?=\/)/, '')
  if (path !== '' && !path.startsWith(':memory:') && !path.startsWith('//')) return resolve(path)
  throw usageError('The URL of SQLite needs the path of a file.', 'Write sqlite:orders.db or sqlite:/var/lib/orders.db')
}
