import { version } from '../version.ts'

/** The versions that generated projects ask for: the ones that Ackord itself is tested with, all of which run on Node 20.19. */
const versions = {
  '@hono/node-server': '^2.1.6',
  '@nats-io/jetstream': '^3.4.0',
  '@nats-io/transport-node': '^3.4.0',
  '@nestjs/common': '^12.4.2',
  '@nestjs/core': '^12.4.2',
  '@nestjs/platform-express': '^12.4.2',
  '@nestjs/testing': '^12.1.1',
  '@photostructure/sqlite': '^1.2.1',
  '@types/node': '^20.19.0',
  '@types/pg': '^8.23.1',
  amqplib: '^2.3.1',
  'drizzle-orm': '^0.45.0',
  fastify: '^5.12.8',
  hono: '^4.13.17',
  ioredis: '^6.0.0',
  kafkajs: '^2.2.4',
  kysely: '~0.28.18',
  mysql2: '^3.24.5',
  pg: '^8.23.1',
  redis: '^6.3.0',
  'reflect-metadata': '^0.2.2',
  rxjs: '^7.8.2',
  tsx: '^4.23.0',
  typescript: '~6.0.3',
  vitest: '^4.1.12',
  zod: '^4.6.7',
} as const

type AckordPackage = `@ackord/${'core' | 'http' | 'kafka' | 'nats' | 'nestjs' | 'outbox' | 'rabbitmq' | 'redis' | 'sql' | 'testkit'}`

export type PackageName = AckordPackage | keyof typeof versions

export function versionOf(name: PackageName): string {
  return name in versions ? versions[name as keyof typeof versions] : `^${version}`
}
