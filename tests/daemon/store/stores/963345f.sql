BEGIN TRANSACTION;
CREATE TABLE accounts (
	id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "accounts" VALUES('00000000-0000-4000-8000-000000000000-S0','{"id":"00000000-0000-4000-8000-000000000000-S0","name":"vm-1","type":"m1.large","price_per_hour":0.24,"opened_at":1795353514.2606025,"until":1795353514.8036163,"vm_id":"00000000-0000-4000-8000-000000000000-S0","pool":"","phase":"idle","dollars":3.620092074076335e-05,"found":true,"closed":false}#d37aabe5');
INSERT INTO "accounts" VALUES('00000000-0000-4000-8000-000000000000-S1','{"id":"00000000-0000-4000-8000-000000000000-S1","name":"vm-2","type":"m1.large","price_per_hour":0.24,"opened_at":1795353514.2606025,"until":1795353514.8036163,"vm_id":"00000000-0000-4000-8000-000000000000-S1","pool":"","phase":"idle","dollars":3.620092074076335e-05,"found":true,"closed":false}#d72e9155');
CREATE TABLE charges (
	day TEXT NOT NULL, 
	vm TEXT NOT NULL, 
	pool TEXT NOT NULL, 
	type TEXT NOT NULL, 
	job TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (day, vm, pool, type, job, owner, queue, policy, kind)
);
INSERT INTO "charges" VALUES('2026-11-22','vm-1','','m1.large','','','','ff','idle',2.93759067853291830265e-05);
INSERT INTO "charges" VALUES('2026-11-22','vm-1','','m1.large','job-1','','default','ff','used',2.41158405939738e-06);
INSERT INTO "charges" VALUES('2026-11-22','vm-1','','m1.large','job-2','','default','ff','used',4.41342989603678408777e-06);
INSERT INTO "charges" VALUES('2026-11-22','vm-2','','m1.large','','','','ff','idle',3.62009207407633490285e-05);
CREATE TABLE comparisons (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE executors (
	task_id TEXT NOT NULL, 
	job INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	launched_at DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (task_id), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "executors" VALUES('job-1.0',1,'killed',1.79535351440047764781e+09,'{"task_id":"job-1.0","job_id":"job-1","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795353514.4004776,"state":"killed","running_at":1795353514.4668305,"ended_at":1795353514.5451727,"message":"ended with its job","cost":9.64633623758952e-06,"accrued_until":1795353514.5451727,"killed_at":1795353514.5370054,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#43e933da');
INSERT INTO "executors" VALUES('job-2.0',2,'running',1.79535351467121338841e+09,'{"task_id":"job-2.0","job_id":"job-2","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795353514.6712134,"state":"running","running_at":1795353514.7597327,"ended_at":null,"message":"","cost":4.413429896036784e-06,"accrued_until":1795353514.8036163,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#b45be412');
INSERT INTO "executors" VALUES('job-2.1',2,'running',1.79535351467121338841e+09,'{"task_id":"job-2.1","job_id":"job-2","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20201],"launched_at":1795353514.6712134,"state":"running","running_at":1795353514.7631588,"ended_at":null,"message":"","cost":4.413429896036784e-06,"accrued_until":1795353514.8036163,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#c7d5290c');
INSERT INTO "executors" VALUES('job-3.0',3,'running',1.7953535148036162853e+09,'{"task_id":"job-3.0","job_id":"job-3","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20202],"launched_at":1795353514.8036163,"state":"running","running_at":1795353514.8590071,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795353514.8036163,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#c362d1cd');
INSERT INTO "executors" VALUES('job-3.1',3,'running',1.7953535148036162853e+09,'{"task_id":"job-3.1","job_id":"job-3","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20203],"launched_at":1795353514.8036163,"state":"running","running_at":1795353514.8611765,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795353514.8036163,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#3ea551d9');
INSERT INTO "executors" VALUES('job-3.driver-2',3,'running',1.7953535148036162853e+09,'{"task_id":"job-3.driver-2","job_id":"job-3","number":null,"vm_id":"00000000-0000-4000-8000-000000000000-S1","vm_name":"vm-2","vm_type":"m1.large","address":"127.0.8.2","price_per_hour":0.24,"ports":[20400,20401,20402],"launched_at":1795353514.8036163,"state":"running","running_at":1795353514.863355,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795353514.8036163,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#7fd57fad');
CREATE TABLE explanations (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	decision TEXT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "explanations" VALUES(1,1,'place',X'7801AD92CB6EC32010457F65C4DA8D425E4DFD0FDD76534516C1434D0B198B47D2C8F2BF7770DDA85956AAD87007B8730F300895442D1F9FB66B1E72B3583FEDF6BBEDBE12EF746C6C2BEA327990A2123D39ABAF5C3086558BDA464B27D6BD531AB91450C5A920810C48C04FD439518830ED686B38FBC9C9A8EC5214F5EBA112BA23ABB18841FC1C10F5B21267CFD6F3814B57FA16013642EA108C0D31C1CB335C6CEA2010793014C026CEA1D5A9B5AD4AB3EB6FA374ED919DBC5C3815DE4A68CEFE3147899A02AF9EB27353AE884C9742C6429B9475BC6F182B610262A3FBCC72B3E0A493F6E8295C1B6F8F7C9DBBF57E33D70346CA61221CC6B11A6E5C2B6EFEF73846B9F88F79CA03DC6EAB71685243993F04537D03CA0278C7B65C31DA3DD561FC025B13BCD7');
INSERT INTO "explanations" VALUES(2,2,'place',X'7801DD92CF4EC3300CC65F25CAB99BD6762DACEFC0950B9AAA2C75682059AAFCD9A8AABE3B4ED806685C90B83055AAFAB9B6F3FDEC4C9479DAE4779BAAC4275F2FEB7A5357F7EB8CBE985D2B3BDAC48F4541333A1825F98801215075C0A593668F7A508C03862C3097020531821404DE80076FAC2329A36BC8412FF22CBD315DB0A0BCA3CDD336A3BC37924314133D97D16695D183C6036219161CFB787A14443AE27B20425AE7C9E303394ADF136B8C26C258223D6673B6EF64C7FCA9EBD7467E1C003BE97CA9987D8ED691E0F564C57163F1EF3E28957C3940466F034466CFA4C2BC6946FB16A0E54340B95EA2D3A4356863C756CB1D0EB52EE31C53DC8233C126C2699EB3E9C21507FB7B3B8229F7877EE2022ED36A1508DF9A80D702A93E00F308F88D6D5520DA15D5E7EAF27FB2BAF2E7D555657D5EE915E4F926DDD0EAB6F33B2F3550B2');
INSERT INTO "explanations" VALUES(3,3,'place',X'7801DD52CB4EC33010FC15CBE7B48AE3D047FE812B175445AEB32606278EFC68A9A2FC3BEB500AA815124750242BB3DE9D9DD9F54845A0155B6FEF387EAC5C6EF29C6DB6EB8C3EDB7DAD1B5AA59F05A7191DACD1F28401A5103520B5D7B6473C182101430E849F0305B18A14045E41C6609D277346539143B760D97C62BA12D1044FABC75D46656BB5840446FA5146AB3CA3870E1BA4322C38B6A97B02447B125A204A3B1FC8C33D39EAD012676D4794754407CC96A26F7423C299F52B51380D804C1D5B1AE19E927474F07296E2A57578DB4763665D1ED063701192E720B4C1BC7142F90EA0964344582C51E98C3BE8AC3BD59DDEE3504BCE57E7B8036FA39B1D8ED3948D175F0536FFBD1C258CFF414F795BCF8A6FCA9B7AD2022ED3AA0DA850DB88CF025DBD1B6489F09BB7BC40AA2B579FAB637F6475B3B3EBD571CE8A9BA3FA9FABDB4D6FEDCF509A');
INSERT INTO "explanations" VALUES(4,4,'wait',X'7801AD92316FC3201085FF0A622691C14E9AB85BF7AC5DAACA22F86868B18900378D2CFFF71E38A9DAAA5297C803BC27B8FBEEE191CA486B7EB75D95F8F16AB9ADF85A6C197D75FBC6B4B44E9B4545193D3A6BD4190DAD51B5A04C30AE477D9226A2E34186ACBD731DD1CE9382384D38810F5043743E245911751C02917D4B78212AB2330FF7C917E47117182E56AAB77C064B6A39D81868FDF4CCA83A38A32089915E2BD2BA1FAC65F4BDBBEE4E8744783B0285A0A695F1D23835C26E0B8E70F17C04541D5F5AE95F009D849E00F30972900113C8D36A0FC070F41EA08596E23441398FB7677C1C2D0026A9A50D90A28DD2582C344E18015E6D52115A17CBE2A23BE89C3F379DD9E3D309B1D95C7C0FC10D3EA7344E131B73308946FCCB2B326F794BDEF26FDE55B9BECEF193373DF257DC8D051D1B37E0CF89A7E700E6B4BE0F3F3BBFCA4C9F421FE9AE');
CREATE TABLE facts (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "facts" VALUES('schema','7');
INSERT INTO "facts" VALUES('made_at','');
INSERT INTO "facts" VALUES('lease','');
INSERT INTO "facts" VALUES('term','1');
INSERT INTO "facts" VALUES('leader','http://127.0.0.1:3424');
INSERT INTO "facts" VALUES('clock','{"boot": "53542483-8751-4eb7-a81f-d1f3acd98660", "offset": 1795306048.8306391}');
INSERT INTO "facts" VALUES('framework_id','00000000-0000-4000-8000-000000000000-0000');
INSERT INTO "facts" VALUES('probe','e22c709c68fac64a');
INSERT INTO "facts" VALUES('charged','89b4e06c3e1bec60');
CREATE TABLE jobs (
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	cost DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	spec TEXT, 
	accepted_at DOUBLE, 
	idempotency_key TEXT, 
	finished_at DOUBLE, 
	size INTEGER, 
	owner TEXT DEFAULT '' NOT NULL, 
	queue TEXT DEFAULT 'default' NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES(1,'killed',9.64633623758952e-06,'{"job":{"id":"job-1","type":"unknown","executors":1,"submitted_at":1795353514.3829386,"name":"over","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"killed","reason":"killed on request","placed_at":1795353514.4004776,"started_at":1795353514.4668305,"finished_at":1795353514.5370054,"exit_code":null,"next_executor":1,"losses":0,"failures":0,"cost":9.64633623758952e-06,"driver_on":"f0260d0b4ef55bf0@recorded","aborting":false,"retried":0,"wanted":[],"capped":""}#cff29df8','{"app":"/apps/sort.py","name":"over","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"max_runtime":null}#45b2742a',1.79535351438293862345e+09,'over',1.79535351453700542457e+09,NULL,'','default');
INSERT INTO "jobs" VALUES(2,'running',8.82685979207356817555e-06,'{"job":{"id":"job-2","type":"sort","executors":2,"submitted_at":1795353514.6609652,"name":"here","expected_duration":1011.6666666666666,"prefers":"spread","driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.06,0.0],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"its driver runs","placed_at":1795353514.6712134,"started_at":1795353514.7631588,"finished_at":null,"exit_code":null,"next_executor":2,"losses":0,"failures":0,"cost":8.826859792073568e-06,"driver_on":"f0260d0b4ef55bf0@recorded","aborting":false,"retried":0,"wanted":[],"capped":""}#c28b6aed','{"app":"/apps/sort.py","name":"here","type":"sort","owner":"","queue":"default","executors":2,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"max_runtime":null}#65e189ad',1.79535351466096520425e+09,'here',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(3,'running',0.0,'{"job":{"id":"job-3","type":"unknown","executors":2,"submitted_at":1795353514.7954116,"name":"there","expected_duration":null,"prefers":null,"driver":{"cpus":1.0,"memory_mib":1024},"min_executors":1,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"all its executors run","placed_at":1795353514.8036163,"started_at":1795353514.8611765,"finished_at":null,"exit_code":null,"next_executor":3,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#59f543a4','{"app":"/apps/sort.py","name":"there","type":"unknown","owner":"","queue":"default","executors":2,"min_executors":1,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":{"on":"cluster","cpus":1.0,"memory":1024,"spot":"never"},"spark":null,"spot":"allowed","retries":0,"max_runtime":null}#7b9fd8fa',1.79535351479541158679e+09,'there',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(4,'queued',0.0,'{"job":{"id":"job-4","type":"unknown","executors":1,"submitted_at":1795353514.931697,"name":"large","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"cpus":4.0,"memory_mib":1024,"resources":{}},"state":"queued","reason":"room for 0 of 1 executors of 4 cpus and 1024 MiB; of 2 VMs, 2 lack cpus","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#332e0e86','{"app":"/apps/sort.py","name":"large","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":4.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"max_runtime":null}#021855c1',1.79535351493169689175e+09,'large',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(5,'queued',0.0,'{"job":{"id":"job-5","type":"unknown","executors":1,"submitted_at":1795353514.9441981,"name":"small","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"cpus":0.5,"memory_mib":1024,"resources":{}},"state":"queued","reason":"waits for its turn","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#2ad5ddae','{"app":"/apps/sort.py","name":"small","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":0.5,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"max_runtime":null}#de24c817',1.79535351494419813151e+09,'small',NULL,NULL,'','default');
CREATE TABLE leases (
	id TEXT NOT NULL, 
	pool TEXT NOT NULL, 
	state TEXT NOT NULL, 
	asked_at DOUBLE NOT NULL, 
	closed_at DOUBLE, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE quarantine (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	body BLOB NOT NULL, 
	why TEXT NOT NULL, 
	found_at DOUBLE NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE sums (
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	cost DOUBLE NOT NULL, 
	size INTEGER NOT NULL, 
	PRIMARY KEY (name, state)
);
INSERT INTO "sums" VALUES('jobs','queued',2,0.0,0);
INSERT INTO "sums" VALUES('jobs','placing',0,0.0,0);
INSERT INTO "sums" VALUES('executors','launching',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','starting',0,0.0,0);
INSERT INTO "sums" VALUES('executors','starting',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','running',2,8.82685979207356817555e-06,0);
INSERT INTO "sums" VALUES('executors','running',5,0.0,0);
INSERT INTO "sums" VALUES('jobs','killed',1,9.64633623758952e-06,0);
INSERT INTO "sums" VALUES('executors','killed',1,0.0,0);
CREATE INDEX jobs_unmeasured ON jobs (finished_at) WHERE finished_at IS NOT NULL AND size IS NULL;
CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue);
CREATE INDEX jobs_by_queue ON jobs (queue, state, number);
CREATE INDEX ix_leases_state ON leases (state);
CREATE INDEX ix_leases_closed_at ON leases (closed_at);
CREATE INDEX charges_by_job ON charges (job);
CREATE INDEX ix_executors_state ON executors (state);
CREATE INDEX ix_executors_job ON executors (job);
CREATE INDEX explanations_by_job ON explanations (job, decision);
CREATE INDEX comparisons_by_job ON comparisons (job);
CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END;
CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END;
COMMIT;
