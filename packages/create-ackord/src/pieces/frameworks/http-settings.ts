import type { Setting } from '../piece.ts'

export const httpSettings: readonly Setting[] = [
  { constant: 'host', variable: 'HOST', value: '127.0.0.1', meaning: 'The address to listen on; `0.0.0.0` in a container.' },
  { constant: 'port', variable: 'PORT', value: 3000, meaning: 'The port to listen on.' },
]
