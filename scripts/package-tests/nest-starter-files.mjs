// @ts-check
// A project in the layout of Nest's own starter: CommonJS, compiled by `nest build`, tested with Jest. What a user of Ackord adds to it is marked.

/** @typedef {{ nest: '10' | '11', title: string }} NestStarter */

/** The starters whose projects are CommonJS; from Nest 12 on they are ES modules. @type {readonly NestStarter[]} */
export const nestStarters = [
  { nest: '10', title: "Nest's starter, version 10, in CommonJS" },
  { nest: '11', title: "Nest's starter, version 11, in CommonJS" },
]

/** As the starter has them. */
const tools = {
  10: { '@types/jest': '^29.5.2', '@types/node': '^20.3.1', jest: '^29.5.0', 'ts-jest': '^29.1.0', typescript: '~5.9.0' },
  11: { '@types/jest': '^30.0.0', '@types/node': '^24.0.0', jest: '^30.0.0', 'ts-jest': '^29.2.5', typescript: '~5.9.0' },
}

/**
 * @param {NestStarter} starter
 * @param {readonly import('../pack-packages.mjs').PackedPackage[]} packed
 * @returns {Readonly<Record<string, string>>}
 */
export function nestStarterFiles({ nest }, packed) {
  const nestVersion = `^${nest}.0.0`
  const own = Object.fromEntries(packed.map(({ name, tarball }) => [name, `file:${tarball}`]))
  const named = ['core', 'nestjs', 'rabbitmq', 'sql'].map((name) => `@ackord/${name}`)
  const pick = (/** @type {readonly string[]} */ names) => Object.fromEntries(names.map((name) => [name, own[name] ?? '']))
  const content = {
    name: `nest-${nest}-starter`,
    version: '0.0.1',
    private: true,
    scripts: { build: 'nest build', 'start:prod': 'node dist/main', test: 'jest' },
    dependencies: {
      '@nestjs/common': nestVersion,
      '@nestjs/core': nestVersion,
      '@nestjs/platform-express': nestVersion,
      'reflect-metadata': '^0.2.0',
      rxjs: '^7.8.1',
      // Added.
      ...pick(named),
      '@nestjs-cls/transactional': '^3.3.0',
      '@nestjs/microservices': nestVersion,
      amqplib: '^2.3.1',
      'nestjs-cls': '^6.3.0',
      pg: '^8.23.1',
    },
    devDependencies: {
      '@nestjs/cli': nestVersion,
      '@nestjs/testing': nestVersion,
      ...tools[nest],
      // Added.
      ...pick(['@ackord/testkit']),
      '@types/pg': '^8.23.1',
    },
    overrides: Object.fromEntries(Object.entries(own).filter(([name]) => !named.includes(name) && name !== '@ackord/testkit')),
    jest: {
      moduleFileExtensions: ['js', 'json', 'ts'],
      rootDir: 'src',
      testRegex: '.*\\.spec\\.ts$',
      transform: { '^.+\\.(t|j)s$': 'ts-jest' },
      testEnvironment: 'node',
      // Added: Jest cannot require ES modules, so ts-jest compiles those of Ackord, as it compiles the sources.
      transformIgnorePatterns: ['/node_modules/(?!@ackord/)'],
    },
  }
  return {
    'package.json': JSON.stringify(content, null, 2),
    'nest-cli.json': JSON.stringify({ collection: '@nestjs/schematics', sourceRoot: 'src', compilerOptions: { deleteOutDir: true } }),
    'tsconfig.json': JSON.stringify({ compilerOptions: compilerOptions[nest] }, null, 2),
    'tsconfig.build.json': JSON.stringify({ extends: './tsconfig.json', exclude: ['node_modules', 'test', 'dist', '**/*spec.ts'] }),
    ...sources,
  }
}

const commonOptions = {
  declaration: true,
  removeComments: true,
  emitDecoratorMetadata: true,
  experimentalDecorators: true,
  allowSyntheticDefaultImports: true,
  sourceMap: true,
  outDir: './dist',
  incremental: true,
  skipLibCheck: true,
  strictNullChecks: true,
  noImplicitAny: true,
  strictBindCallApply: true,
  forceConsistentCasingInFileNames: true,
  noFallthroughCasesInSwitch: true,
}

const compilerOptions = {
  // Changed: `module` was `commonjs`, which does not know the exports of packages. The project is still CommonJS. With it, ts-jest asks for `isolatedModules`.
  10: { ...commonOptions, target: 'ES2021', module: 'nodenext', isolatedModules: true },
  11: {
    ...commonOptions,
    target: 'ES2023',
    module: 'nodenext',
    moduleResolution: 'nodenext',
    resolvePackageJsonExports: true,
    esModuleInterop: true,
    isolatedModules: true,
  },
}

const sources = {
  'src/main.ts': `import { createService } from '@ackord/sql/service';
import { AckordTransport, HandlerErrorInterceptor } from '@ackord/nestjs/microservice';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import { AppModule } from './app.module';
import { Connections } from './connections';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  const { database, eventsSource } = app.get(Connections);
  const strategy = new AckordTransport((handlers) => createService({ database, consumer: 'mails', source: eventsSource(), handlers }));
  app.useGlobalInterceptors(new HandlerErrorInterceptor());
  app.connectMicroservice<MicroserviceOptions>({ strategy }, { inheritAppConfig: true });
  app.enableShutdownHooks();
  await app.startAllMicroservices();
  await app.listen(process.env.PORT ?? 3000);
  console.log('The application listens.');
}
void bootstrap();
`,
  'src/connections.ts': `import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq';
import { createSchema } from '@ackord/sql';
import { fromPg } from '@ackord/sql/postgres';
import { type ChannelModel, connect } from 'amqplib';
import { Pool } from 'pg';

const name = process.env.NAME ?? 'shop';

export class Connections {
  readonly pool = new Pool({ connectionString: process.env.POSTGRES_URL });
  readonly database = fromPg(this.pool);
  readonly destination = \`\${name}.order-events\`;

  private constructor(private readonly connection: ChannelModel) {}

  static async open(): Promise<Connections> {
    const connections = new Connections(await connect(process.env.RABBITMQ_URL ?? 'amqp://guest:guest@127.0.0.1:5672'));
    await declareTopology(connections.connection, { queues: { [\`\${name}.orders\`]: {}, [connections.destination]: {} } });
    await createSchema(connections.database);
    await connections.pool.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, total int NOT NULL)');
    await connections.pool.query('CREATE TABLE IF NOT EXISTS mails (id text PRIMARY KEY)');
    return connections;
  }

  readonly ordersSource = () => rabbitmqSource(this.connection, { queue: \`\${name}.orders\` });
  readonly eventsSource = () => rabbitmqSource(this.connection, { queue: this.destination });
  readonly publisher = () => rabbitmqPublisher(this.connection);

  async close(): Promise<void> {
    await this.connection.close();
    await this.pool.end();
    console.log('The connections are closed.');
  }
}
`,
  'src/connections.module.ts': `import { Global, Module } from '@nestjs/common';
import { Connections } from './connections';

@Global()
@Module({ providers: [{ provide: Connections, useFactory: () => Connections.open() }], exports: [Connections] })
export class ConnectionsModule {}
`,
  'src/app.module.ts': `import { AckordModule } from '@ackord/nestjs';
import { ClsPluginAckord } from '@ackord/nestjs/transactional';
import { Module } from '@nestjs/common';
import { ClsModule } from 'nestjs-cls';
import { Connections } from './connections';
import { ConnectionsModule } from './connections.module';
import { MailsController } from './mails.controller';
import { OrdersService } from './orders.service';

@Module({
  imports: [
    ConnectionsModule,
    AckordModule.forRootAsync({
      inject: [Connections],
      useFactory: (connections: Connections) => ({
        database: connections.database,
        consumer: 'orders',
        source: connections.ordersSource(),
        publisher: connections.publisher(),
        destination: connections.destination,
        eventSource: '/orders',
        onClose: () => connections.close(),
      }),
    }),
    ClsModule.forRoot({ plugins: [new ClsPluginAckord()] }),
  ],
  controllers: [MailsController],
  providers: [OrdersService],
})
export class AppModule {}
`,
  'src/messages.ts': `import { defineEvent } from '@ackord/core';

export interface Order {
  id: string;
  total: number;
}

export const placeOrder = defineEvent<Order>('order.place');
export const orderPlaced = defineEvent<{ orderId: string }>('order.placed');
`,
  'src/orders.service.ts': `import { InjectDatabase, OnCommand } from '@ackord/nestjs';
import type { Database } from '@ackord/sql';
import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { type Order, orderPlaced, placeOrder } from './messages';

@Injectable()
export class OrdersService {
  constructor(@InjectDatabase() private readonly database: Database<Pool>) {}

  @OnCommand(placeOrder)
  async place({ id, total }: Order) {
    await this.database.executor().query('INSERT INTO orders (id, total) VALUES ($1, $2)', [id, total]);
    return [orderPlaced({ orderId: id })];
  }
}
`,
  'src/mails.controller.ts': `import type { TransactionalAdapterAckord } from '@ackord/nestjs/transactional';
import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { Propagation, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import type { Pool } from 'pg';

@Controller()
export class MailsController {
  constructor(private readonly host: TransactionHost<TransactionalAdapterAckord<Pool>>) {}

  @EventPattern('order.placed')
  async send(@Payload() { orderId }: { orderId: string }) {
    await this.add(orderId);
  }

  @Transactional(Propagation.Mandatory)
  private async add(id: string) {
    await this.host.tx.query('INSERT INTO mails (id) VALUES ($1)', [id]);
  }
}
`,
  'src/orders.service.spec.ts': `import { getDatabaseToken } from '@ackord/nestjs';
import { AckordTestingModule, assertPublished, deliver } from '@ackord/nestjs/testing';
import { Test } from '@nestjs/testing';
import { orderPlaced, placeOrder } from './messages';
import { OrdersService } from './orders.service';

describe('OrdersService', () => {
  it('stores an order and its event', async () => {
    const written: unknown[] = [];
    const query = (_text: string, values: unknown[]) => Promise.resolve(written.push(values));
    const module = await Test.createTestingModule({ imports: [AckordTestingModule.forRoot()], providers: [OrdersService] })
      .overrideProvider(getDatabaseToken())
      .useValue({ executor: () => ({ query }) })
      .compile();
    const command = placeOrder({ id: 'o-1', total: 42 }, { id: 'm-1', source: '/test' });
    await deliver(module, command);
    await deliver(module, command);
    expect(written).toEqual([['o-1', 42]]);
    await assertPublished(module, { type: orderPlaced.type, data: { orderId: 'o-1' } });
  });
});
`,
}
