import { Column, Entity, PrimaryColumn } from 'typeorm'

@Entity('orders')
export class Order {
  @PrimaryColumn('varchar', { length: 36 })
  id!: string

  @Column('varchar', { length: 100 })
  product!: string

  @Column('int')
  quantity!: number
}

@Entity('stock')
export class Stock {
  @PrimaryColumn('varchar', { length: 100 })
  product!: string

  @Column('int')
  available!: number
}
